"""No caller can have so much test money made that nothing is left for others."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from florin_server.devnet.errors import RpcFault
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.gifts import USUAL_A_DAY, Gift, Gifts, Kind
from florin_server.devnet.solana import SOLNET
from solders.keypair import Keypair

from tests.support import devnet_kit, solana_kit

DAY_NS = 86_400 * 10**9
COIN = Kind("coins", 10, 1_000)
GIFT = 10_000 * 10**6


class Evm:
    """The same questions for either chain."""

    NodeError = devnet_kit.NodeError
    opened = staticmethod(devnet_kit.opened)
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
    NodeError = solana_kit.NodeError
    opened = staticmethod(solana_kit.opened)
    tokens = tuple(token.address for token in SOLNET.tokens)
    account_coin = 10**13
    supply_max = 2**64 - 1
    coin = "lamports"

    def stranger(self) -> str:
        return str(Keypair().pubkey())

    def amount(self, value: int) -> Any:
        return value

    async def held(self, node: Any, account: str) -> tuple[int, int]:
        owner = solana_kit.Pubkey.from_string(account)
        return await node.coin(owner), await node.tokens(owner)


@pytest.fixture(params=[Evm, Solana])
def kind(request) -> Evm:
    return request.param()


async def test_huge_prices_and_ever_new_accounts_leave_enough_for_others(kind):
    async with kind.opened() as node:
        for wanted in (kind.supply_max, kind.supply_max // 2, kind.account_tokens + 1):
            for _ in range(3):
                gift = {"accounts": [kind.stranger()], "tokenUnits": kind.amount(wanted)}
                with pytest.raises(kind.NodeError, match="fills no account up to more than"):
                    await node.ask("florin_faucet", gift)
        coin = {kind.coin: kind.amount(kind.account_coin + 1), "tokens": []}
        with pytest.raises(kind.NodeError, match="fills no account up to more than"):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **coin})
        dearest = {"tokenUnits": kind.amount(kind.account_tokens)}
        many = [kind.stranger() for _ in range(3)]
        with pytest.raises(kind.NodeError, match="in one call"):
            await node.ask("florin_faucet", {"accounts": many, **dearest})
        for _ in range(USUAL_A_DAY * GIFT // kind.account_tokens):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **dearest})
        with pytest.raises(kind.NodeError, match="left for what is more than usual"):
            await node.ask("florin_faucet", {"accounts": [kind.stranger()], **dearest})
        assert [await kind.held(node, one) for one in many] == [(0, 0)] * len(many)
        # what everybody gets is not touched
        buyer = kind.stranger()
        await node.ask("florin_faucet", {"accounts": [buyer], "tokens": kind.tokens})
        has_coin, has_tokens = await kind.held(node, buyer)
        assert (has_coin > 0, has_tokens) == (True, GIFT)


async def test_what_is_refused_changes_nothing(kind):
    async with kind.opened() as node:
        first, second = kind.stranger(), kind.stranger()
        too_much = {"tokenUnits": kind.amount(kind.account_tokens + 1)}
        with pytest.raises(kind.NodeError, match="fills no account"):
            await node.ask("florin_faucet", {"accounts": [first, second], **too_much})
        assert await kind.held(node, first) == await kind.held(node, second) == (0, 0)


async def test_an_airdrop_is_a_gift_too():
    most, who = 10_000 * 10**9, str(Keypair().pubkey())
    async with solana_kit.opened() as node:
        await node.ask("requestAirdrop", who, most)
        with pytest.raises(solana_kit.NodeError, match="fills no account"):
            await node.ask("requestAirdrop", who, 1)
        for _ in range(9):
            await node.ask("requestAirdrop", str(Keypair().pubkey()), most)
        with pytest.raises(solana_kit.NodeError, match="left for what is more than usual"):
            await node.ask("requestAirdrop", str(Keypair().pubkey()), most)
        await node.ask("requestAirdrop", str(Keypair().pubkey()), 10**9)


# the budgets


def test_a_days_budget_comes_back_in_a_day_and_not_at_once():
    now = [0]
    gifts = Gifts(lambda: now[0])
    usual = Gift(COIN, 10, 10)
    a_tenth = [usual] * (USUAL_A_DAY // 10)
    for _ in range(10):
        gifts.take(a_tenth)
    with pytest.raises(RpcFault, match="0 minor units of coins left for usual gifts"):
        gifts.take([usual])
    # another budget, and another kind
    gifts.take([Gift(COIN, 11, 11)])
    gifts.take([Gift(Kind("tokens", 10, 1_000), 10, 10)])
    now[0] += DAY_NS // USUAL_A_DAY
    gifts.take([usual])
    with pytest.raises(RpcFault):
        gifts.take([usual])
    now[0] += DAY_NS // 10
    gifts.take(a_tenth)
    with pytest.raises(RpcFault):
        gifts.take([usual])
    now[0] += 100 * DAY_NS
    for _ in range(10):
        gifts.take(a_tenth)
    with pytest.raises(RpcFault):
        gifts.take([usual])


def test_a_call_that_is_refused_takes_nothing():
    gifts = Gifts(lambda: 0)
    other = Kind("tokens", 10, 1_000)
    share = [Gift(COIN, 10, 10)] * (USUAL_A_DAY // 10)
    for _ in range(9):
        gifts.take(share)
    with pytest.raises(RpcFault):
        gifts.take([*share, Gift(other, 1_001, 1_001)])
    gifts.take(share)


def test_what_a_faucet_gives_in_a_year_of_attacks_is_a_part_of_what_there_is():
    from florin_server.devnet.evm import faucet as evm
    from florin_server.devnet.genesis import FAUCET_WEI
    from florin_server.devnet.solana import faucet as solana
    from florin_server.devnet.solana.genesis import FAUCET_LAMPORTS

    supplies = [(evm.COIN, FAUCET_WEI), (solana.COIN, FAUCET_LAMPORTS)]
    supplies += [(one, 2**256) for one in evm.TOKENS.values()]
    supplies += [(one, 2**64) for one in solana.TOKENS.values()]
    for kind, supply in supplies:
        assert 2 * kind.a_day * 365 < supply
        assert kind.account_max <= kind.a_call
