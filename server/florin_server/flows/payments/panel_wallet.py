"""A wallet for test payments, with a key for each of them that nobody has to keep.

Its money comes from the faucets of test chains, and its answers are what any wallet's would be: it
asks for options, signs one, and confirms.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Final

from eth_account import Account
from eth_account.messages import encode_typed_data
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Action, Option, Payment
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.fetch import fetch
from florin_server.flows.payments.options import options
from florin_server.rails.protocol import Rail

_EVM: Final = "eip155:"
_TYPED_DATA: Final = "eth_signTypedData_v4"
_SOLANA: Final = "solana_signTransaction"


def rails(app: App) -> Sequence[Rail]:
    """The chains that it can pay on: those that give test money."""
    return [rail for rail in app.rails.values() if not rail.live and rail.faucet and rail.assets]


async def pay(app: App, caller: Caller, payment: Payment, chain_id: str) -> Payment:
    """Pays a test payment on a chain, with what can be signed; the payment as it is then.

    FlorinError as a wallet's calls have it; invalid_state if the chain offers nothing to sign.
    """
    if all(rail.chain_id != chain_id for rail in rails(app)):
        raise FlorinError(Code.INVALID_PARAMS, "There is no test wallet on this chain")
    # nobody who has the link knows the salt, so that nobody else pays from there
    secret = hashlib.sha256(b"test wallet" + payment.salt).digest()
    found = await options(app, caller, payment.id, [f"{chain_id}:{_address(secret, chain_id)}"])
    for option in found.options:
        if found.asked.urls.get(option.id):
            continue
        actions = await _actions(app, caller, payment, option)
        if all(action.method in {_TYPED_DATA, _SOLANA} for action in actions):
            outputs = [[json.dumps(_signed(secret, action)) for action in actions]]
            return await confirm(app, caller, payment.id, option.id, outputs)
    raise FlorinError(Code.INVALID_STATE, "The test wallet has nothing to pay with")


async def _actions(app: App, caller: Caller, payment: Payment, option: Option) -> Sequence[Action]:
    build = option.build
    return await fetch(app, caller, payment.id, option.id, build.data if build else "")


def _address(secret: bytes, chain_id: str) -> str:
    if chain_id.startswith(_EVM):
        return str(Account.from_key(secret).address)
    return str(Keypair.from_seed(secret).pubkey())


def _signed(secret: bytes, action: Action) -> str:
    """What a wallet gives out for an action: a signature, or a signed transaction in base64."""
    params = json.loads(action.params_json)
    if action.method == _TYPED_DATA:
        typed_data = encode_typed_data(full_message=json.loads(params[1]))
        return "0x" + bytes(Account.from_key(secret).sign_message(typed_data).signature).hex()
    return _co_signed(Keypair.from_seed(secret), base64.b64decode(params[0]["transaction"]))


def _co_signed(key: Keypair, transaction: bytes) -> str:
    asked = VersionedTransaction.from_bytes(transaction)
    message = asked.message
    signers = message.account_keys[: message.header.num_required_signatures]
    signatures = list(asked.signatures)
    signatures[signers.index(key.pubkey())] = key.sign_message(to_bytes_versioned(message))
    return base64.b64encode(bytes(VersionedTransaction.populate(message, signatures))).decode()
