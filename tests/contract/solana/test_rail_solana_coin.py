"""Solana's own coin on an embedded chain: what is offered, checked, sent and taken for proven."""

from __future__ import annotations

import struct

import pytest
from florin_server.chains.solana import spl
from florin_server.domain.errors import FlorinError
from florin_server.domain.settlement.chain_txs import ChainTx, TxState
from florin_server.flows.payouts.opening import places
from florin_server.rails.solana.paying.message import WalletBounds, acceptable
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaCoin
from florin_server.rails.types import Effect, NotReceivable, RailUnavailable, Transfer
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair

from tests.support.solana import ASSETS, COIN, RENT, SolanaWallet, rebuilt, steps
from tests.support.solana_answers import changed
from tests.support.solana_kit import coin, place, wallet
from tests.support.solana_lab import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    message,
    open_lab,
    outputs,
    settings,
    signed,
    split,
    transaction,
)

FEE = 40_000
SOL = {"asset_id": COIN}


@pytest.fixture
async def lab():
    async with open_lab(coin=SolanaCoin()) as lab:
        await lab.node.fund(wallet(90), wallet(91), tokens=[], lamports=RENT)
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


async def test_coin_is_an_asset_only_if_the_operator_takes_it(lab):
    assert lab.rail.assets[COIN].decimals == 9
    assert lab.rail.assets[COIN].peg is None
    assert lab.rail.native_asset == COIN
    assert await lab.rail.problems() == ()
    async with open_lab() as other:
        assert tuple(other.rail.assets) == ASSETS


async def test_a_treasury_that_could_not_receive_fees_is_told():
    async with open_lab(coin=SolanaCoin()) as lab:
        (problem,) = await lab.rail.problems()
        assert TREASURY in problem
        assert COIN in lab.rail.assets


@pytest.mark.parametrize(
    ("held", "offered"),
    [
        (PRICE - 1, False),
        (PRICE, True),  # the account ends
        (PRICE + 1, False),
        (PRICE + RENT - 1, False),
        (PRICE + RENT, True),
    ],
)
async def test_buyers_keep_what_an_account_must_hold_or_nothing(buyer, held, offered):
    async with open_lab(coin=SolanaCoin(), faucet=False) as lab:
        await lab.node.fund(wallet(91), tokens=[], lamports=RENT)
        await lab.node.fund(buyer.key, tokens=[], lamports=held)
        found = await lab.payable([buyer.account], {COIN: PRICE})
        assert bool(found) is offered
        # the chain agrees, and whoever asks it is told why
        if offered:
            await lab.accepted(buyer, **SOL)
            return
        with pytest.raises(FlorinError) as caught:
            await lab.accepted(buyer, **SOL)
        assert caught.value.details == {"reason": "insufficient_funds"}


async def test_accounts_with_data_cannot_send_coin(lab, buyer):
    def filled(result):
        result["value"][0]["data"][0] = "AAAA"

    await lab.node.fund(buyer.key)
    lab.between.changes["getMultipleAccounts"] = changed(filled)
    assert await lab.payable([buyer.account], {COIN: PRICE}) == []


async def test_coin_and_tokens_are_read_in_one_call(lab, buyer):
    await lab.node.fund(buyer.key)
    lab.between.asked.clear()
    found = await lab.payable([buyer.account], {COIN: PRICE, **dict.fromkeys(ASSETS, PRICE)})
    assert {means.asset for means in found} == {COIN, *ASSETS}
    assert lab.between.asked == ["getMultipleAccounts"]


async def test_a_large_price_is_filled_up_to(lab, buyer):
    large = 5 * 10**12
    assert await lab.payable([buyer.account], {COIN: large, ASSETS[0]: PRICE})
    assert await lab.node.coin(buyer.key.pubkey()) == large + RENT


@pytest.mark.parametrize(
    ("dest", "value", "fee", "problem"),
    [
        (str(wallet(7).pubkey()), RENT - 1, 0, "it needs 1 more"),
        (str(wallet(7).pubkey()), RENT + 4, 5, "it needs 1 more"),
        (str(wallet(7).pubkey()), RENT + 5, 5, None),
        (MERCHANT, 6, 5, None),
        (RELAYER.address, PRICE, 0, "pays the fees"),
        (str(place(wallet(3).pubkey())), PRICE, 0, "is no wallet"),
    ],
)
async def test_nothing_is_offered_that_a_receiver_cannot_take(
    lab, buyer, dest, value, fee, problem
):
    await lab.node.fund(wallet(3))
    found = await lab.rail.offers.obstacle(lab.rail.assets[COIN], value, split(fee, dest))
    assert (problem is None and found is None) or problem in found
    _, option = await lab.offer(buyer, value=value, fee=fee, dest=dest, **SOL)
    if problem is None:
        await lab.issued(option)
        return
    with pytest.raises(NotReceivable, match=problem):
        await lab.issued(option)


async def test_of_tokens_nothing_is_too_little(lab):
    lab.between.asked.clear()
    nobody = str(wallet(7).pubkey())
    asset, way = lab.rail.assets[ASSETS[0]], split(0, nobody)
    assert await lab.rail.offers.obstacle(asset, 1, way, places(asset.id, way)) is None
    assert lab.between.asked == []


async def test_the_transaction_moves_coin_and_is_paid_by_the_relayer(lab, buyer):
    _, option = await lab.offer(buyer, fee=FEE, **SOL)
    issued = await lab.issued(option)
    own = steps(message(issued))
    assert [str(one.program_id) for one in own] == [
        str(spl.COMPUTE_BUDGET),
        str(spl.COMPUTE_BUDGET),
        str(spl.SYSTEM),
        str(spl.SYSTEM),
        str(spl.MEMO),
    ]
    moves = [(one.accounts[1].pubkey, struct.unpack("<IQ", one.data)) for one in own[2:4]]
    assert [(str(to), what) for to, what in moves] == [
        (MERCHANT, (2, PRICE - FEE)),
        (TREASURY, (2, FEE)),
    ]
    assert str(transaction(issued).message.account_keys[0]) == RELAYER.address
    assert str(transaction(issued).message.account_keys[1]) == buyer.address


BOUNDS = WalletBounds(settings().compute_price_max, settings().compute_units_max)


def guard(*keys) -> Instruction:
    return Instruction(
        spl.LIGHTHOUSE, b"\x06\x00", [AccountMeta(one, False, False) for one in keys]
    )


def coin_to(key, amount):
    return lambda own, keys: [*own[:2], spl.transfer_coin(keys[1], key, amount), *own[3:]]


CHANGES = {
    "one guard, as Phantom": (True, lambda own, keys: [*own, guard(keys[1])]),
    "two guards, as Solflare": (True, lambda own, keys: [guard(keys[1]), *own, guard(keys[1])]),
    "less": (False, coin_to(spl.pubkey(MERCHANT), PRICE - FEE - 1)),
    "more": (False, coin_to(spl.pubkey(MERCHANT), PRICE)),
    "to somebody else": (False, coin_to(wallet(1).pubkey(), PRICE - FEE)),
    "by the relayer": (
        False,
        lambda own, keys: [
            *own[:2],
            spl.transfer_coin(keys[0], spl.pubkey(MERCHANT), PRICE - FEE),
            *own[3:],
        ],
    ),
    "twice": (False, lambda own, keys: [*own, own[2]]),
    "no fee": (False, lambda own, keys: [*own[:3], *own[4:]]),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_wallets_may_guard_coin_and_nothing_else(lab, buyer, change):
    allowed, edit = CHANGES[change]
    _, option = await lab.offer(buyer, fee=FEE, **SOL)
    ours = message(await lab.issued(option))
    got = rebuilt(ours, edit(steps(ours), ours.account_keys)).message
    assert acceptable(ours, got, BOUNDS) is allowed


@pytest.mark.parametrize("fee", [0, FEE])
async def test_a_payment_in_coin_is_proven_when_it_is_final_and_not_before(lab, buyer, fee):
    item, issued = await lab.accepted(buyer, fee=fee, **SOL)
    held = [await lab.node.coin(spl.pubkey(one)) for one in (MERCHANT, TREASURY, RELAYER.address)]
    had = await lab.node.coin(buyer.key.pubkey())
    tx = await lab.sent(item)
    assert await lab.rail.observer.find([item]) == []
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)
    assert (paid.tx_hash, paid.value, paid.fee, paid.dest) == (tx.hash, PRICE, fee, MERCHANT)
    mined = (await lab.rail.observer.mined([tx.hash]))[tx.hash]
    assert mined.success
    now = [await lab.node.coin(spl.pubkey(one)) for one in (MERCHANT, TREASURY, RELAYER.address)]
    assert [new - old for new, old in zip(now, held, strict=True)] == [
        PRICE - fee,
        fee,
        -mined.gas_cost,
    ]
    assert await lab.node.coin(buyer.key.pubkey()) == had - PRICE
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None


async def test_a_payment_of_coin_to_oneself_is_proven_too(lab, buyer):
    item, _ = await lab.accepted(buyer, dest=buyer.address, fee=FEE, **SOL)
    await lab.sent(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_balances_that_differ_by_a_lamport_prove_no_payment(lab, buyer, at):
    item, _ = await lab.accepted(buyer, fee=FEE, **SOL)
    await lab.sent(item)
    await lab.slots(FINAL)

    def other(result):
        result["meta"]["postBalances"][at] += 1

    lab.between.changes["getTransaction"] = changed(other)
    rail = SolanaRail(settings(coin=SolanaCoin()), RELAYER, lab.between)
    assert await rail.observer.find([item]) == []


async def test_balances_of_other_accounts_than_ours_prove_nothing(lab, buyer):
    item, _ = await lab.accepted(buyer, **SOL)
    await lab.sent(item)
    await lab.slots(FINAL)

    def fewer(result):
        result["meta"]["preBalances"].pop()
        result["meta"]["postBalances"].pop()

    lab.between.changes["getTransaction"] = changed(fewer)
    with pytest.raises(RailUnavailable, match="other accounts"):
        await lab.rail.observer.find([item])


async def test_coin_that_is_gone_when_it_lands_is_a_failure_for_good(lab, buyer):
    item, issued = await lab.accepted(buyer, **SOL)
    held = await lab.node.coin(buyer.key.pubkey())
    # it pays the fee too, and keeps less than the price
    away = coin(buyer.key, wallet(8).pubkey(), held - RENT - 5_000)
    await lab.node.send(await lab.node.made([buyer.key], away))
    assert await lab.rail.relay.simulate([item]) == [False]
    tx = await lab.sent(item)
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.mined([tx.hash]))[tx.hash].success
    assert await lab.rail.observer.find([item]) == []
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is not None


@pytest.mark.parametrize(("at", "told"), [(0, -1), (2, -1)])
async def test_coin_that_costs_others_is_not_sent(lab, buyer, at, told):
    """The relayer loses more than the fee, or a receiver gets less than its share."""

    def drain(result):
        result["value"]["accounts"][at]["lamports"] += told

    _, option = await lab.offer(buyer, **SOL)
    issued = await lab.issued(option)
    lab.between.changes["simulateTransaction"] = changed(drain)
    with pytest.raises(RailUnavailable):
        await lab.rail.verifier.verify(option, [issued], outputs(signed(buyer, issued)))


# ---- out of the treasury


@pytest.fixture
async def payer(lab):
    """The payouts of a rail with the treasury's key."""
    seed = b"\x77" * 32
    treasury = SolanaSigner(seed)
    chain = settings(coin=SolanaCoin(), treasury=treasury.address)
    rail = SolanaRail(chain, RELAYER, lab.between, treasury=treasury)
    await lab.node.fund(Keypair.from_seed(seed), tokens=[], lamports=2 * PRICE + RENT)
    await rail.start()
    assert rail.payouts is not None
    return rail.payouts


def refund(to: str, value: int = PRICE) -> Transfer:
    return Transfer("rfnd_1", COIN, f"{settings().caip2}:{to}", value)


@pytest.mark.parametrize(
    ("to", "value", "problem"),
    [
        (str(wallet(5).pubkey()), PRICE, None),
        (str(wallet(5).pubkey()), RENT - 1, "it needs 1 more"),
        (str(wallet(5).pubkey()), 2 * PRICE + 1, "lacks 1 minor units"),
        (str(wallet(5).pubkey()), 2 * PRICE + RENT, None),
        (RELAYER.address, PRICE, "pays the fees"),
    ],
)
async def test_only_coin_that_can_be_sent_leaves_the_treasury(lab, payer, to, value, problem):
    found = await payer.obstacle(refund(to, value), [])
    assert (problem is None and found is None) or problem in found


async def test_coin_on_its_way_is_spent_already(payer):
    to = str(wallet(5).pubkey())
    assert await payer.obstacle(refund(to), [refund(to)]) is None
    found = await payer.obstacle(refund(to), [refund(to), refund(to)])
    assert f"lacks {PRICE} minor units" in found


async def test_what_a_transfer_of_coin_moved_is_told_by_the_balances(lab, payer):
    to = wallet(5).pubkey()
    made = await payer.sign(0, refund(str(to)))
    tx = ChainTx("tx_1", settings().caip2, payer.sender, 0, made.raw, made.hash, TxState.SENT, 0)
    await lab.rail.relay.broadcast(made.raw)
    await lab.slots(FINAL)
    assert await lab.node.coin(to) == PRICE
    assert await payer.effect(tx, tx.hash, refund(str(to))) is Effect.EXACT
    assert await payer.effect(tx, tx.hash, refund(str(to), PRICE - 1)) is Effect.OTHER
