"""A wallet for test payments, with a separate key for each, which is never stored.

Its money comes from the faucets of test chains, and it acts like any wallet: it requests options,
signs one, and confirms.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Final, Protocol

from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Action, Payment, PaymentOption
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.fetch import fetch
from florin_server.money.payments.service.options import list_options
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_EVM: Final = "eip155:"
_TYPED_DATA: Final = "eth_signTypedData_v4"
_SOLANA: Final = "solana_signTransaction"


def list_rails(app: ChainContext) -> Sequence[Rail]:
    """Return the chains that it can pay on: those that give test money."""
    return [rail for rail in app.rails.values() if not rail.live and rail.faucet and rail.assets]


async def pay(app: _Context, caller: Caller, payment: Payment, chain_id: str) -> Payment:
    """Pay a test payment on a chain with a signature; return the payment afterwards.

    ApiError as for a wallet's calls; invalid_state if the chain offers nothing to sign.
    """
    if all(rail.chain_id != chain_id for rail in list_rails(app)):
        raise ApiError(
            ErrorCode.INVALID_PARAMS, f"The test wallet does not support chain {chain_id}"
        )
    # the salt is secret, so that others with the link cannot pay from this account
    secret = hashlib.sha256(b"test wallet" + payment.salt).digest()
    payment_options = await list_options(
        app, caller, payment.id, [f"{chain_id}:{_derive_address(secret, chain_id)}"]
    )
    for option in payment_options.options:
        if payment_options.data_requirement.urls.get(option.id):
            continue
        actions = await _list_actions(app, caller, payment, option)
        if all(action.method in {_TYPED_DATA, _SOLANA} for action in actions):
            outputs = [[json.dumps(_sign_action(secret, action)) for action in actions]]
            return await confirm(app, caller, payment.id, option.id, outputs)
    raise ApiError(ErrorCode.INVALID_STATE, "The test wallet cannot pay this payment")


async def _list_actions(
    app: _Context, caller: Caller, payment: Payment, option: PaymentOption
) -> Sequence[Action]:
    build = option.build
    return await fetch(app, caller, payment.id, option.id, build.data if build else "")


def _derive_address(secret: bytes, chain_id: str) -> str:
    # its import would take a sixth of each process's start, and only test payments need it
    from eth_account import Account  # noqa: PLC0415

    if chain_id.startswith(_EVM):
        return str(Account.from_key(secret).address)
    return str(Keypair.from_seed(secret).pubkey())


def _sign_action(secret: bytes, action: Action) -> str:
    """Return a wallet's output for an action: a signature, or a signed transaction in base64."""
    from eth_account import Account  # noqa: PLC0415
    from eth_account.messages import encode_typed_data  # noqa: PLC0415

    params = json.loads(action.params_json)
    if action.method == _TYPED_DATA:
        typed_data = encode_typed_data(full_message=json.loads(params[1]))
        return "0x" + bytes(Account.from_key(secret).sign_message(typed_data).signature).hex()
    return _co_sign(Keypair.from_seed(secret), base64.b64decode(params[0]["transaction"]))


def _co_sign(key: Keypair, transaction: bytes) -> str:
    versioned_transaction = VersionedTransaction.from_bytes(transaction)
    message = versioned_transaction.message
    signers = message.account_keys[: message.header.num_required_signatures]
    signatures = list(versioned_transaction.signatures)
    signatures[signers.index(key.pubkey())] = key.sign_message(to_bytes_versioned(message))
    return base64.b64encode(bytes(VersionedTransaction.populate(message, signatures))).decode()
