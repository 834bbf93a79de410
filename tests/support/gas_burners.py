"""Accounts that make relayers lose gas, and the results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.accounts.account import WalletApp
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.money.payments.service.options import list_options
from florin_server.money.settlement import service as gas_budgets
from florin_server.money.settlement.store import gas
from florin_server.money.settlement.store.gas import GasUsage
from florin_server.rails.evm.rail import EvmRail
from florin_server.settings import FailedGasSettings

from tests.support.contract_accounts import UNIVERSAL, ContractAccount
from tests.support.evm_harness import (
    RELAYER,
    make_asset,
    make_buyer,
    make_chain_settings,
    sign_option,
    to_account,
)
from tests.support.hostile_accounts import (
    SWITCHED,
)
from tests.support.settlement_harness import BUYER, CHAIN, SHOP, SettlementHarness

EVIL, OTHER, HONEST = make_buyer(66), make_buyer(67), make_buyer(68)
TTL_S = 7200
# one payment by an account with code, with its overhead
ONE = 300_000
ONE_MAX = 600_000
SAFE = bytes.fromhex("5a" * 20)


def make_wallet_app(name: str) -> Caller:
    return Caller(live=False, app=WalletApp(name, name, None, False, "2026-02-18", 0))


def set_budgets(shop: SettlementHarness, **most: int) -> None:
    """Set budgets that a few payments exhaust."""
    plenty = dict.fromkeys(("payer", "app", "chain", "opened_app", "opened_chain"), 10**9)
    shop.app.settings.__dict__["failed_gas"] = FailedGasSettings.model_construct(**plenty | most)


async def confirm_payment(
    shop: SettlementHarness, wallet: LocalAccount, caller: Caller = BUYER
) -> Payment:
    """Return a payment of a wallet with code, or of a plain one, that an app confirmed."""
    return await confirm_offer(
        shop, wallet, await make_offer(shop, to_account(wallet), caller), caller
    )


async def confirm_offer(
    shop: SettlementHarness, wallet: LocalAccount, offer: Any, caller: Caller
) -> Payment:
    created, option = offer
    return await confirm(shop.app, caller, created.id, option.id, [[sign_option(wallet, option)]])


async def make_offer(shop: SettlementHarness, account: str, caller: Caller = BUYER) -> Any:
    """Create a payment; return its option for an account."""
    expires_at = shop.lab.clock.now_us() // 1_000_000 + TTL_S
    new_payment = NewPayment("iso4217/USD", "150", expires_at=expires_at)
    created = await create(shop.app, BUYER, SHOP, new_payment, lambda _: b"")
    assert isinstance(created, Payment)
    (option,) = (await list_options(shop.app, caller, created.id, [account])).options
    return created, option


async def allow_account_creation(shop: SettlementHarness) -> str:
    """Allow account creation, also by a factory that creates any code it gets."""
    universal = await shop.lab.deploy(UNIVERSAL)
    factories = (DEVNET.wallet_factory, universal)
    chosen = make_chain_settings(opener=DEVNET.opener, factories=factories, assets=(make_asset(),))
    shop.lab.rail = EvmRail(chosen, RELAYER, shop.lab.node)
    await shop.lab.rail.start()
    await shop.restart()
    return universal


async def confirm_uncreated_account(
    shop: SettlementHarness, account: ContractAccount, caller: Caller = BUYER
) -> Payment:
    """Return a confirmed payment of an account that does not exist yet, with how to create it."""
    created, option = await make_offer(shop, to_account(account.address), caller)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    output = json.dumps(account.wrap(document))
    return await confirm(shop.app, caller, created.id, option.id, [[output]])


async def get_refusal(awaited: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await awaited
    return caught.value


async def send_first(shop: SettlementHarness, to: str, value: int = 0, data: bytes = b"") -> None:
    """Send a transaction of the faucet that comes first in the next block."""
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


async def switch_code(shop: SettlementHarness, wallet: LocalAccount, *, burns: bool) -> None:
    await send_first(shop, wallet.address.lower(), int(burns))


async def burn_gas(shop: SettlementHarness, *wallets: LocalAccount) -> None:
    """Settle the waiting payments so that they fail: accounts change between dry run and block."""
    await shop.turn()
    for wallet in wallets:
        await switch_code(shop, wallet, burns=True)
    await shop.mine(3)
    for wallet in wallets:
        await switch_code(shop, wallet, burns=False)
    await shop.mine()


async def make_gas_burners(shop: SettlementHarness, *wallets: LocalAccount) -> None:
    """Make accounts burn gas on command; blocks are sealed by hand from now on."""
    for wallet in wallets:
        await shop.lab.fund(wallet)
        await shop.lab.delegate(wallet, SWITCHED)
    await shop.lab.pause()


def count_broadcasts(shop: SettlementHarness) -> int:
    return shop.lab.node.methods.count("eth_sendRawTransaction")


async def get_budget_usage(shop: SettlementHarness) -> GasUsage:
    since_us = gas_budgets.get_hour_start(shop.lab.clock.now_us())
    most = shop.app.settings.failed_gas.payer
    return await shop.store.read(gas.get_usage(CHAIN, since_us, most))


async def advance_time(shop: SettlementHarness, seconds: int) -> None:
    shop.lab.clock.advance(seconds)
    await shop.turn(2)
