"""Accounts that make relayers lose gas, and what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_server.config import FailedGasSettings
from florin_server.devnet.evm import DEVNET
from florin_server.domain.accounts.account import WalletApp
from florin_server.domain.errors import FlorinError
from florin_server.domain.payments.payment import Payment
from florin_server.flows.app import Caller
from florin_server.flows.limits import gas_budgets
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.options import options
from florin_server.rails.evm.rail import EvmRail
from florin_server.store.settlement import gas
from florin_server.store.settlement.gas import Usage

from tests.support.evm_lab import RELAYER, account_of, asset, buyer, settings, signed
from tests.support.hostile import (
    SWITCHED,
)
from tests.support.settler_lab import BUYER, CHAIN, SHOP, Works
from tests.support.smart import UNIVERSAL, Smart

EVIL, OTHER, HONEST = buyer(66), buyer(67), buyer(68)
TTL_S = 7200
# one payment by an account with code, and what comes with it
ONE = 300_000
ONE_MAX = 600_000
SAFE = bytes.fromhex("5a" * 20)


def wallet_app(name: str) -> Caller:
    return Caller(live=False, app=WalletApp(name, name, None, False, "2026-02-18", 0))


def budget(shop: Works, **most: int) -> None:
    """Budgets that a few payments exhaust."""
    plenty = dict.fromkeys(("payer", "app", "chain", "opened_app", "opened_chain"), 10**9)
    shop.app.settings.__dict__["failed_gas"] = FailedGasSettings.model_construct(**plenty | most)


async def accepted(shop: Works, wallet: LocalAccount, caller: Caller = BUYER) -> Payment:
    """A payment of a wallet with code, or of a plain one, that an app confirmed."""
    return await handed_in(shop, wallet, await offered(shop, account_of(wallet), caller), caller)


async def handed_in(shop: Works, wallet: LocalAccount, offer: Any, caller: Caller) -> Payment:
    made, option = offer
    return await confirm(shop.app, caller, made.id, option.id, [[signed(wallet, option)]])


async def offered(shop: Works, account: str, caller: Caller = BUYER) -> Any:
    """A new payment, and its option for an account."""
    expires_at = shop.lab.clock.now_us() // 1_000_000 + TTL_S
    wanted = NewPayment("iso4217/USD", "150", expires_at=expires_at)
    made = await create(shop.app, BUYER, SHOP, wanted, lambda _: b"")
    assert isinstance(made, Payment)
    (option,) = (await options(shop.app, caller, made.id, [account])).options
    return made, option


async def creating(shop: Works) -> str:
    """Lets accounts be created, also by a factory that creates whatever it is told to."""
    universal = await shop.lab.deploy(UNIVERSAL)
    factories = (DEVNET.wallet_factory, universal)
    chosen = settings(opener=DEVNET.opener, factories=factories, assets=(asset(),))
    shop.lab.rail = EvmRail(chosen, RELAYER, shop.lab.node)
    await shop.lab.rail.start()
    await shop.restart()
    return universal


async def unborn(shop: Works, account: Smart, caller: Caller = BUYER) -> Payment:
    """A payment of an account that does not exist yet, confirmed with how to create it."""
    made, option = await offered(shop, account_of(account.address), caller)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    output = json.dumps(account.wrap(document))
    return await confirm(shop.app, caller, made.id, option.id, [[output]])


async def refusal(awaited: Any) -> FlorinError:
    with pytest.raises(FlorinError) as caught:
        await awaited
    return caught.value


async def push(shop: Works, to: str, value: int = 0, data: bytes = b"") -> None:
    """Sends a transaction of the faucet that comes first in the next block."""
    nonce = await shop.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    fields = {
        "chainId": DEVNET.chain_id,
        "nonce": int(nonce, 16),
        "gas": 1_500_000,
        "maxFeePerGas": 10**12,
        "maxPriorityFeePerGas": 10**11,
        "to": bytes.fromhex(to[2:]),
        "value": value,
        "data": data,
    }
    raw = Account.sign_transaction(fields, DEVNET.faucet_key).raw_transaction
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())


async def switch(shop: Works, wallet: LocalAccount, *, burns: bool) -> None:
    await push(shop, wallet.address.lower(), int(burns))


async def burn(shop: Works, *wallets: LocalAccount) -> None:
    """What waits is sent, and fails: the accounts change between their trial and the block."""
    await shop.turn()
    for wallet in wallets:
        await switch(shop, wallet, burns=True)
    await shop.mine(3)
    for wallet in wallets:
        await switch(shop, wallet, burns=False)
    await shop.mine()


async def evil(shop: Works, *wallets: LocalAccount) -> None:
    """Accounts that burn gas when they are told to; blocks are sealed by hand from now on."""
    for wallet in wallets:
        await shop.lab.fund(wallet)
        await shop.lab.delegate(wallet, SWITCHED)
    await shop.lab.pause()


def broadcasts(shop: Works) -> int:
    return shop.lab.node.asked.count("eth_sendRawTransaction")


async def lost(shop: Works) -> Usage:
    since_us = gas_budgets.hour_of(shop.lab.clock.now_us())
    most = shop.app.settings.failed_gas.payer
    return await shop.store.read(gas.usage(CHAIN, since_us, most))


async def wait(shop: Works, seconds: int) -> None:
    shop.lab.clock.advance(seconds)
    await shop.turn(2)
