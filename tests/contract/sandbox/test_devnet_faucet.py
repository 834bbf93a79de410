"""Test that no caller can use up the faucet for others."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.faucet_limits import (
    USUAL_GIFTS_PER_DAY,
    FaucetGift,
    GiftBudgets,
    GiftKind,
)
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from solders.keypair import Keypair

from tests.support import evm_devnet, solana_devnet

DAY_NS = 86_400 * 10**9
COIN = GiftKind("coins", 10, 1_000)
GIFT = 10_000 * 10**6


class Evm:
    """Faucet calls in the form of either chain."""

    NodeError = evm_devnet.EvmNodeError
    opened = staticmethod(evm_devnet.open_node)
    tokens = tuple(token.address for token in DEVNET.tokens)
    account_coin, account_tokens = 10**22, 10**14
    supply_max = 2**256 - 1
    coin = "nativeWei"

    def stranger(self) -> str:
        return Account.create().address

    def amount(self, value: int) -> Any:
        return hex(value)

    async def held(self, node: Any, account: str) -> tuple[int, int]:
        return int(await node.ask("eth_getBalance", account), 16), await node.tokens(account)


class Solana(Evm):
    NodeError = solana_devnet.SolanaNodeError
    opened = staticmethod(solana_devnet.open_node)
    tokens = tuple(token.address for token in SOLANA_DEVNET.tokens)
    account_coin = 10**13
    supply_max = 2**64 - 1
    coin = "lamports"

    def stranger(self) -> str:
        return str(Keypair().pubkey())

    def amount(self, value: int) -> Any:
        return value

    async def held(self, node: Any, account: str) -> tuple[int, int]:
        owner = solana_devnet.Pubkey.from_string(account)
        return await node.coin(owner), await node.tokens(owner)


@pytest.fixture(params=[Evm, Solana])
def kind(request) -> Evm:
    return request.param()


async def test_huge_amounts_and_many_accounts_do_not_exhaust_the_faucet(kind):
    async with kind.opened() as node:
        for expected in (kind.supply_max, kind.supply_max // 2, kind.account_tokens + 1):
            for _ in range(3):
                gift = {"accounts": [kind.stranger()], "tokenUnits": kind.amount(expected)}
                with pytest.raises(kind.NodeError, match="fills no account up to more than"):
                    await node.ask("florin_faucet", gift)
        coin = {kind.coin: kind.amount(kind.account_coin + 1), "tokens": []}
        with pytest.raises(kind.NodeError, match="fills no account up to more than"):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **coin})
        dearest = {"tokenUnits": kind.amount(kind.account_tokens)}
        many = [kind.stranger() for _ in range(3)]
        with pytest.raises(kind.NodeError, match="in one call"):
            await node.ask("florin_faucet", {"accounts": many, **dearest})
        for _ in range(USUAL_GIFTS_PER_DAY * GIFT // kind.account_tokens):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **dearest})
        with pytest.raises(kind.NodeError, match="left for larger gifts"):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **dearest})
        assert [await kind.held(node, item) for item in many] == [(0, 0)] * len(many)
        # the usual gift's budget is untouched
        buyer = kind.stranger()
        await node.ask("florin_faucet", {"accounts": [buyer], "tokens": kind.tokens})
        has_coin, has_tokens = await kind.held(node, buyer)
        assert (has_coin > 0, has_tokens) == (True, GIFT)


async def test_refused_faucet_request_changes_nothing(kind):
    async with kind.opened() as node:
        first, second = kind.stranger(), kind.stranger()
        too_much = {"tokenUnits": kind.amount(kind.account_tokens + 1)}
        with pytest.raises(kind.NodeError, match="fills no account"):
            await node.ask("florin_faucet", {"accounts": [first, second], **too_much})
        assert await kind.held(node, first) == await kind.held(node, second) == (0, 0)


async def test_an_airdrop_is_a_gift_too():
    most, who = 10_000 * 10**9, str(Keypair().pubkey())
    async with solana_devnet.open_node() as node:
        await node.ask("requestAirdrop", who, most)
        with pytest.raises(solana_devnet.SolanaNodeError, match="fills no account"):
            await node.ask("requestAirdrop", who, 1)
        for _ in range(9):
            await node.ask("requestAirdrop", str(Keypair().pubkey()), most)
        with pytest.raises(solana_devnet.SolanaNodeError, match="left for larger gifts"):
            await node.ask("requestAirdrop", str(Keypair().pubkey()), most)
        await node.ask("requestAirdrop", str(Keypair().pubkey()), 10**9)


# the budgets


def test_a_days_budget_comes_back_in_a_day_and_not_at_once():
    now = [0]
    gifts = GiftBudgets(lambda: now[0])
    usual = FaucetGift(COIN, 10, 10)
    a_tenth = [usual] * (USUAL_GIFTS_PER_DAY // 10)
    for _ in range(10):
        gifts.take_gifts(a_tenth)
    with pytest.raises(RpcFault, match="0 minor units of coins left for usual gifts"):
        gifts.take_gifts([usual])
    # another budget, and another kind of gift
    gifts.take_gifts([FaucetGift(COIN, 11, 11)])
    gifts.take_gifts([FaucetGift(GiftKind("tokens", 10, 1_000), 10, 10)])
    now[0] += DAY_NS // USUAL_GIFTS_PER_DAY
    gifts.take_gifts([usual])
    with pytest.raises(RpcFault):
        gifts.take_gifts([usual])
    now[0] += DAY_NS // 10
    gifts.take_gifts(a_tenth)
    with pytest.raises(RpcFault):
        gifts.take_gifts([usual])
    now[0] += 100 * DAY_NS
    for _ in range(10):
        gifts.take_gifts(a_tenth)
    with pytest.raises(RpcFault):
        gifts.take_gifts([usual])


def test_a_call_that_is_refused_takes_nothing():
    gifts = GiftBudgets(lambda: 0)
    other = GiftKind("tokens", 10, 1_000)
    share = [FaucetGift(COIN, 10, 10)] * (USUAL_GIFTS_PER_DAY // 10)
    for _ in range(9):
        gifts.take_gifts(share)
    with pytest.raises(RpcFault):
        gifts.take_gifts([*share, FaucetGift(other, 1_001, 1_001)])
    gifts.take_gifts(share)


def test_faucet_supply_outlasts_a_year_of_attacks():
    from florin_sandbox.devnet.evm import faucet as evm
    from florin_sandbox.devnet.genesis import FAUCET_WEI
    from florin_sandbox.devnet.solana import faucet as solana
    from florin_sandbox.devnet.solana.genesis import FAUCET_LAMPORTS

    supplies = [(evm.COIN, FAUCET_WEI), (solana.COIN, FAUCET_LAMPORTS)]
    supplies += [(each_kind, 2**256) for each_kind in evm.TOKENS.values()]
    supplies += [(each_kind, 2**64) for each_kind in solana.TOKENS.values()]
    for kind, supply in supplies:
        assert 2 * kind.daily_budget * 365 < supply
        assert kind.account_max <= kind.call_max
