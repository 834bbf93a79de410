"""Test Solana's native coin on an embedded chain: offers, verification, sending and proof."""

from __future__ import annotations

import struct

import pytest
from florin_server.domain.chains.solana import spl
from florin_server.domain.errors import ApiError
from florin_server.domain.settlement.chain_txs import ChainTx, TxState
from florin_server.money.payouts.service.account_opening import list_receiving_accounts
from florin_server.rails.solana.paying.message import WalletBounds, is_acceptable
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaCoinSettings
from florin_server.rails.types import (
    RailUnavailable,
    ReceiverUnavailable,
    TransferEffect,
    TreasuryTransfer,
)
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair

from tests.support.solana import (
    ASSETS,
    COIN,
    RENT,
    SolanaTestWallet,
    list_instructions,
    rebuild_transaction,
)
from tests.support.solana_answers import make_result_change
from tests.support.solana_devnet import get_token_account, make_coin_transfer, make_wallet
from tests.support.solana_rail_harness import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    get_message,
    get_transaction,
    make_chain_settings,
    make_outputs,
    make_split,
    open_lab,
    sign_build,
)

FEE = 40_000
SOL = {"asset_id": COIN}


@pytest.fixture
async def lab():
    async with open_lab(coin=SolanaCoinSettings()) as lab:
        await lab.node.fund(make_wallet(90), make_wallet(91), tokens=[], lamports=RENT)
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


async def test_coin_is_an_asset_only_if_the_operator_takes_it(lab):
    assert lab.rail.assets[COIN].decimals == 9
    assert lab.rail.assets[COIN].peg is None
    assert lab.rail.native_asset == COIN
    assert await lab.rail.list_problems() == ()
    async with open_lab() as other:
        assert tuple(other.rail.assets) == ASSETS


async def test_treasury_that_cannot_receive_fees_is_reported():
    async with open_lab(coin=SolanaCoinSettings()) as lab:
        (problem,) = await lab.rail.list_problems()
        assert TREASURY in problem
        assert COIN in lab.rail.assets


@pytest.mark.parametrize(
    ("held", "offered"),
    [
        (PRICE - 1, False),
        (PRICE, True),  # the account is closed
        (PRICE + 1, False),
        (PRICE + RENT - 1, False),
        (PRICE + RENT, True),
    ],
)
async def test_buyer_balance_must_end_rent_exempt_or_at_zero(buyer, held, offered):
    async with open_lab(coin=SolanaCoinSettings(), faucet=False) as lab:
        await lab.node.fund(make_wallet(91), tokens=[], lamports=RENT)
        await lab.node.fund(buyer.key, tokens=[], lamports=held)
        payables = await lab.payable([buyer.account], {COIN: PRICE})
        assert bool(payables) is offered
        # the chain agrees, and a caller sees the reason
        if offered:
            await lab.create_item(buyer, **SOL)
            return
        with pytest.raises(ApiError) as caught:
            await lab.create_item(buyer, **SOL)
        assert caught.value.details == {"reason": "insufficient_funds"}


async def test_accounts_with_data_cannot_send_coin(lab, buyer):
    def filled(result):
        result["value"][0]["data"][0] = "AAAA"

    await lab.node.fund(buyer.key)
    lab.transport.changes["getMultipleAccounts"] = make_result_change(filled)
    assert await lab.payable([buyer.account], {COIN: PRICE}) == []


async def test_coin_and_tokens_are_read_in_a_single_call(lab, buyer):
    await lab.node.fund(buyer.key)
    lab.transport.methods.clear()
    result = await lab.payable([buyer.account], {COIN: PRICE, **dict.fromkeys(ASSETS, PRICE)})
    assert {means.asset for means in result} == {COIN, *ASSETS}
    assert lab.transport.methods == ["getMultipleAccounts"]


async def test_a_large_price_is_filled_up_to(lab, buyer):
    large = 5 * 10**12
    assert await lab.payable([buyer.account], {COIN: large, ASSETS[0]: PRICE})
    assert await lab.node.coin(buyer.key.pubkey()) == large + RENT


@pytest.mark.parametrize(
    ("dest", "value", "fee", "problem"),
    [
        (str(make_wallet(7).pubkey()), RENT - 1, 0, "it needs 1 more"),
        (str(make_wallet(7).pubkey()), RENT + 4, 5, "it needs 1 more"),
        (str(make_wallet(7).pubkey()), RENT + 5, 5, None),
        (MERCHANT, 6, 5, None),
        (RELAYER.address, PRICE, 0, "pays the fees"),
        (str(get_token_account(make_wallet(3).pubkey())), PRICE, 0, "is not a wallet"),
    ],
)
async def test_nothing_is_offered_that_a_receiver_cannot_take(
    lab, buyer, dest, value, fee, problem
):
    await lab.node.fund(make_wallet(3))
    result = await lab.rail.offers.check_receivable(
        lab.rail.assets[COIN], value, make_split(fee, dest)
    )
    assert (problem is None and result is None) or problem in result
    _, option = await lab.offer(buyer, value=value, fee=fee, dest=dest, **SOL)
    if problem is None:
        await lab.build_option(option)
        return
    with pytest.raises(ReceiverUnavailable, match=problem):
        await lab.build_option(option)


async def test_of_tokens_nothing_is_too_little(lab):
    lab.transport.methods.clear()
    unused_address = str(make_wallet(7).pubkey())
    asset, way = lab.rail.assets[ASSETS[0]], make_split(0, unused_address)
    assert (
        await lab.rail.offers.check_receivable(
            asset, 1, way, list_receiving_accounts(asset.id, way)
        )
        is None
    )
    assert lab.transport.methods == []


async def test_the_transaction_moves_coin_and_is_paid_by_the_relayer(lab, buyer):
    _, option = await lab.offer(buyer, fee=FEE, **SOL)
    issued = await lab.build_option(option)
    own = list_instructions(get_message(issued))
    assert [str(instruction.program_id) for instruction in own] == [
        str(spl.COMPUTE_BUDGET),
        str(spl.COMPUTE_BUDGET),
        str(spl.SYSTEM),
        str(spl.SYSTEM),
        str(spl.MEMO),
    ]
    moves = [
        (instruction.accounts[1].pubkey, struct.unpack("<IQ", instruction.data))
        for instruction in own[2:4]
    ]
    assert [(str(to), what) for to, what in moves] == [
        (MERCHANT, (2, PRICE - FEE)),
        (TREASURY, (2, FEE)),
    ]
    assert str(get_transaction(issued).message.account_keys[0]) == RELAYER.address
    assert str(get_transaction(issued).message.account_keys[1]) == buyer.address


BOUNDS = WalletBounds(
    make_chain_settings().compute_price_max, make_chain_settings().compute_units_max
)


def guard(*keys) -> Instruction:
    return Instruction(
        spl.LIGHTHOUSE, b"\x06\x00", [AccountMeta(key, False, False) for key in keys]
    )


def coin_to(key, amount):
    return lambda own, keys: [*own[:2], spl.transfer_coin(keys[1], key, amount), *own[3:]]


CHANGES = {
    "one guard, as Phantom": (True, lambda own, keys: [*own, guard(keys[1])]),
    "two guards, as Solflare": (True, lambda own, keys: [guard(keys[1]), *own, guard(keys[1])]),
    "less": (False, coin_to(spl.parse_pubkey(MERCHANT), PRICE - FEE - 1)),
    "more": (False, coin_to(spl.parse_pubkey(MERCHANT), PRICE)),
    "to another receiver": (False, coin_to(make_wallet(1).pubkey(), PRICE - FEE)),
    "by the relayer": (
        False,
        lambda own, keys: [
            *own[:2],
            spl.transfer_coin(keys[0], spl.parse_pubkey(MERCHANT), PRICE - FEE),
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
    ours = get_message(await lab.build_option(option))
    got = rebuild_transaction(ours, edit(list_instructions(ours), ours.account_keys)).message
    assert is_acceptable(ours, got, BOUNDS) is allowed


@pytest.mark.parametrize("fee", [0, FEE])
async def test_a_payment_in_coin_is_proven_when_it_is_final_and_not_before(lab, buyer, fee):
    item, issued = await lab.create_item(buyer, fee=fee, **SOL)
    held = [
        await lab.node.coin(spl.parse_pubkey(text))
        for text in (MERCHANT, TREASURY, RELAYER.address)
    ]
    had = await lab.node.coin(buyer.key.pubkey())
    tx = await lab.submit_item(item)
    assert await lab.rail.observer.find_settlement_events([item]) == []
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)
    assert (paid.tx_hash, paid.value, paid.fee, paid.dest) == (tx.hash, PRICE, fee, MERCHANT)
    mined = (await lab.rail.observer.find_mined([tx.hash]))[tx.hash]
    assert mined.success
    now = [
        await lab.node.coin(spl.parse_pubkey(text))
        for text in (MERCHANT, TREASURY, RELAYER.address)
    ]
    assert [new - old for new, old in zip(now, held, strict=True)] == [
        PRICE - fee,
        fee,
        -mined.gas_cost,
    ]
    assert await lab.node.coin(buyer.key.pubkey()) == had - PRICE
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None


async def test_a_payment_of_coin_to_oneself_is_proven_too(lab, buyer):
    item, _ = await lab.create_item(buyer, dest=buyer.address, fee=FEE, **SOL)
    await lab.submit_item(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_balances_that_differ_by_a_lamport_prove_no_payment(lab, buyer, at):
    item, _ = await lab.create_item(buyer, fee=FEE, **SOL)
    await lab.submit_item(item)
    await lab.slots(FINAL)

    def other(result):
        result["meta"]["postBalances"][at] += 1

    lab.transport.changes["getTransaction"] = make_result_change(other)
    rail = SolanaRail(make_chain_settings(coin=SolanaCoinSettings()), RELAYER, lab.transport)
    assert await rail.observer.find_settlement_events([item]) == []


async def test_balances_of_other_accounts_than_ours_prove_nothing(lab, buyer):
    item, _ = await lab.create_item(buyer, **SOL)
    await lab.submit_item(item)
    await lab.slots(FINAL)

    def fewer(result):
        result["meta"]["preBalances"].pop()
        result["meta"]["postBalances"].pop()

    lab.transport.changes["getTransaction"] = make_result_change(fewer)
    with pytest.raises(RailUnavailable, match="other accounts"):
        await lab.rail.observer.find_settlement_events([item])


async def test_coin_that_is_gone_when_it_lands_is_a_failure_for_good(lab, buyer):
    item, issued = await lab.create_item(buyer, **SOL)
    held = await lab.node.coin(buyer.key.pubkey())
    # it also pays the fee, and keeps less than the price
    away = make_coin_transfer(buyer.key, make_wallet(8).pubkey(), held - RENT - 5_000)
    await lab.node.send(await lab.node.make_transaction([buyer.key], away))
    assert await lab.rail.relay.simulate([item]) == [False]
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.find_mined([tx.hash]))[tx.hash].success
    assert await lab.rail.observer.find_settlement_events([item]) == []
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is not None


@pytest.mark.parametrize(("at", "lamport_change"), [(0, -1), (2, -1)])
async def test_coin_transfer_that_costs_other_accounts_is_not_sent(lab, buyer, at, lamport_change):
    """The relayer loses more than the fee, or a receiver gets less than its share."""

    def drain(result):
        result["value"]["accounts"][at]["lamports"] += lamport_change

    _, option = await lab.offer(buyer, **SOL)
    issued = await lab.build_option(option)
    lab.transport.changes["simulateTransaction"] = make_result_change(drain)
    with pytest.raises(RailUnavailable):
        await lab.rail.verifier.verify(option, [issued], make_outputs(sign_build(buyer, issued)))


# ---- payouts


@pytest.fixture
async def payer(lab):
    """Return the payouts of a rail with the treasury's key."""
    seed = b"\x77" * 32
    treasury = SolanaSigner(seed)
    chain = make_chain_settings(coin=SolanaCoinSettings(), treasury=treasury.address)
    rail = SolanaRail(chain, RELAYER, lab.transport, treasury=treasury)
    await lab.node.fund(Keypair.from_seed(seed), tokens=[], lamports=2 * PRICE + RENT)
    await rail.start()
    assert rail.payouts is not None
    return rail.payouts


def refund(to: str, value: int = PRICE) -> TreasuryTransfer:
    return TreasuryTransfer("rfnd_1", COIN, f"{make_chain_settings().caip2}:{to}", value)


@pytest.mark.parametrize(
    ("to", "value", "problem"),
    [
        (str(make_wallet(5).pubkey()), PRICE, None),
        (str(make_wallet(5).pubkey()), RENT - 1, "it needs 1 more"),
        (str(make_wallet(5).pubkey()), 2 * PRICE + 1, "lacks 1 minor units"),
        (str(make_wallet(5).pubkey()), 2 * PRICE + RENT, None),
        (RELAYER.address, PRICE, "pays the fees"),
    ],
)
async def test_only_coin_that_can_be_sent_leaves_the_treasury(lab, payer, to, value, problem):
    result = await payer.check_transfer(refund(to, value), [])
    assert (problem is None and result is None) or problem in result


async def test_coin_on_its_way_is_spent_already(payer):
    to = str(make_wallet(5).pubkey())
    assert await payer.check_transfer(refund(to), [refund(to)]) is None
    result = await payer.check_transfer(refund(to), [refund(to), refund(to)])
    assert f"lacks {PRICE} minor units" in result


async def test_coin_transfer_effect_is_read_from_the_balances(lab, payer):
    to = make_wallet(5).pubkey()
    created = await payer.sign(0, refund(str(to)))
    tx = ChainTx(
        "tx_1",
        make_chain_settings().caip2,
        payer.sender,
        0,
        created.raw,
        created.hash,
        TxState.SENT,
        0,
    )
    await lab.rail.relay.broadcast(created.raw)
    await lab.slots(FINAL)
    assert await lab.node.coin(to) == PRICE
    assert await payer.read_effect(tx, tx.hash, refund(str(to))) is TransferEffect.EXACT
    assert await payer.read_effect(tx, tx.hash, refund(str(to), PRICE - 1)) is TransferEffect.OTHER
