"""The Solana rail on an embedded chain: what it offers, checks, sends and takes for proven."""

from __future__ import annotations

import asyncio
import base64
import json
import struct

import pytest
from florin_server.chains.solana import spl
from florin_server.chains.solana.limits import PACKET_BYTES
from florin_server.devnet.solana import SOLNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from tests.support.evm_lab import refuse, reply
from tests.support.solana import ASSETS, SolanaWallet, steps
from tests.support.solana_answers import answer, changed
from tests.support.solana_kit import TOKEN, TOKEN_2022, payment, place, wallet
from tests.support.solana_lab import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    asset,
    journaled,
    message,
    open_lab,
    outputs,
    settings,
    signed,
    transaction,
)

FAST_SLOT_S = 0.214


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


# ---- what is offered


async def test_both_programs_tokens_are_offered(lab):
    assert tuple(lab.rail.assets) == ASSETS
    assert await lab.rail.problems() == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"reference": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "live": False},
            "the node serves solana:",
        ),
        ({"assets": (asset(decimals=9),)}, "has 6 decimals, not 9"),
        ({"assets": (asset(mint=str(wallet(5).pubkey())),)}, "is no token"),
    ],
)
async def test_what_is_not_as_the_operator_said_is_not_offered(changes, problem):
    async with open_lab(**changes) as lab:
        assert lab.rail.assets == {}
        (told,) = await lab.rail.problems()
        assert problem in told


@pytest.mark.parametrize(("kind", "offered"), [(18, True), (1, False), (12, False), (14, False)])
async def test_tokens_that_may_take_money_back_are_not_offered(lab, kind, offered):
    """1 is a fee on transfers, 12 a permanent delegate, 14 a transfer hook, 18 mere metadata."""

    def extend(result):
        mint = result["value"][1]
        data = base64.b64decode(mint["data"][0])
        data = data.ljust(165, b"\0") + b"\x01" + struct.pack("<HH", kind, 4) + bytes(4)
        mint["data"][0] = base64.b64encode(data).decode()

    lab.between.changes["getMultipleAccounts"] = changed(extend)
    problems = await lab.rail.problems()
    assert (ASSETS[1] in lab.rail.assets) is offered
    assert len(problems) == (not offered)


async def test_a_relayer_without_coin_is_a_problem(lab):
    lab.between.changes["getBalance"] = reply({"context": {"slot": 1}, "value": 9_999_999})
    assert await lab.rail.problems() == ()
    (problem,) = await lab.rail.relay.shortages()
    assert RELAYER.address in problem.text
    assert problem.is_empty
    assert lab.rail.assets


async def test_balances_of_many_accounts_take_few_calls(lab):
    payers = [lab.rail.payer(SolanaWallet().account) for _ in range(60)]
    lab.between.asked.clear()
    found = await lab.payable(payers, dict.fromkeys(ASSETS, PRICE))
    assert len(found) == 120
    # twice two, with the faucet in between
    assert lab.between.asked.count("getMultipleAccounts") == 4
    before = lab.rail.rpc.requests
    again = [lab.payable(payers, dict.fromkeys(ASSETS, PRICE)) for _ in range(3)]
    assert await asyncio.gather(*again) == [found] * 3
    # all of them are one read, and that is one payload
    assert lab.rail.rpc.requests - before == 1
    assert lab.between.asked.count("getMultipleAccounts") == 6


@pytest.mark.parametrize(
    ("at", "data"), [(32, bytes(wallet(5).pubkey())), (108, b"\x02"), (64, bytes(8))]
)
async def test_accounts_that_cannot_spend_are_not_offered(lab, buyer, at, data):
    """Given to another owner, frozen, or empty."""
    payer = lab.rail.payer(buyer.account)
    assert await lab.payable([payer], {ASSETS[0]: PRICE})

    def spoil(result):
        held = result["value"][0]
        content = base64.b64decode(held["data"][0])
        content = content[:at] + data + content[at + len(data) :]
        held["data"][0] = base64.b64encode(content).decode()

    lab.between.changes["getMultipleAccounts"] = changed(spoil)
    lab.between.changes["florin_faucet"] = refuse(-32000, "empty")
    assert await lab.payable([payer], {ASSETS[0]: PRICE}) == []


async def test_a_large_price_is_filled_up_to(lab, buyer):
    payer = lab.rail.payer(buyer.account)
    large = 10**14
    assert await lab.payable([payer], {ASSETS[1]: large + 1}) == []
    assert await lab.payable([payer], {ASSETS[1]: large})
    assert await lab.node.tokens(buyer.key.pubkey(), TOKEN_2022) == large


async def test_equal_offers_are_one_option_and_other_routes_another(lab, buyer):
    _, first = await lab.offer(buyer)
    _, again = await lab.offer(buyer)
    _, dearer = await lab.offer(buyer, fee=1)
    assert first == again
    assert first.id != dearer.id
    assert lab.rail.terms.reference(first) != lab.rail.terms.reference(dearer)


async def test_money_is_not_sent_to_an_account_that_cannot_own(lab, buyer):
    await lab.node.fund(wallet(3))
    token_account = str(place(wallet(3).pubkey()))
    _, option = await lab.offer(buyer, dest=token_account)
    with pytest.raises(RailUnavailable, match="is no wallet"):
        await lab.issued(option)


# ---- what is issued


@pytest.mark.parametrize("fee", [0, 40_000])
async def test_the_transaction_fits_and_is_paid_by_the_relayer(lab, buyer, fee):
    _, option = await lab.offer(buyer, fee=fee)
    issued = await lab.issued(option)
    made = transaction(issued)
    assert len(bytes(made)) <= PACKET_BYTES
    assert str(made.message.account_keys[0]) == RELAYER.address
    assert str(made.message.account_keys[1]) == buyer.address
    assert {bytes(one) for one in made.signatures} == {bytes(64)}
    memo = [bytes(one.data) for one in steps(message(issued)) if one.program_id == spl.MEMO]
    assert memo == [lab.rail.terms.reference(option).encode()]


async def test_it_is_issued_again_unless_it_was_just_now(lab, buyer):
    _, option = await lab.offer(buyer)
    first = await lab.issued(option)
    await lab.slots(15)
    assert await lab.built(option, [first]) is None
    await lab.slots(1)
    second = await lab.issued(option, first)
    assert (second.n, second.actions != first.actions) == (1, True)


@pytest.mark.parametrize("before_s", [0, 3, 10, 16, 30])
async def test_buyer_who_takes_25_seconds_at_fast_slots_pays(lab, buyer, before_s):
    """However long the page was open before the wallet fetched its transaction again."""
    _, option = await lab.offer(buyer)
    first = await lab.issued(option)
    await lab.slots(int(before_s / FAST_SLOT_S))
    again = await lab.built(option, [first])
    newest = first if again is None else again
    await lab.slots(int(25 / FAST_SLOT_S))
    issued = [newest] if newest is first else [newest, first]
    await lab.rail.verifier.verify(option, issued, outputs(signed(buyer, newest)))
    await lab.slots(150)
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, issued, outputs(signed(buyer, newest)))
    assert caught.value.code is Code.QUOTE_EXPIRED


# ---- what is verified


async def test_nobody_gets_a_whole_transaction_before_it_is_written_down(lab, buyer):
    tried = []
    lab.between.changes["simulateTransaction"] = lambda params, told: tried.append(params) or told
    await lab.accepted(buyer)
    assert "sendTransaction" not in lab.between.asked
    (params,) = tried
    sent = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
    assert sent.verify_with_results() == [False, True]


async def refusal(lab, buyer) -> FlorinError | RailUnavailable:
    _, option = await lab.offer(buyer)
    issued = await lab.issued(option)
    with pytest.raises((FlorinError, RailUnavailable)) as caught:
        await lab.rail.verifier.verify(option, [issued], outputs(signed(buyer, issued)))
    return caught.value


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("BlockhashNotFound", "no node knows the blockhash now"),
        ("InsufficientFundsForFee", "the relayer cannot pay"),
        ("AccountNotFound", "the relayer cannot pay"),
        ({"InstructionError": [3, {"Custom": 17}]}, "transaction_mismatch"),
    ],
)
async def test_why_a_trial_failed_is_told(lab, buyer, error, told):
    lab.between.changes["simulateTransaction"] = answer(error)
    found = await refusal(lab, buyer)
    text = f"{found} {getattr(found, 'code', '')} {getattr(found, 'details', '')}"
    assert told in text


async def test_a_transaction_that_costs_the_relayer_more_is_not_sent(lab, buyer):
    def drain(result):
        result["value"]["accounts"][0]["lamports"] -= 1

    lab.between.changes["simulateTransaction"] = changed(drain)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)
    assert lab.between.asked.count("simulateTransaction") == 3


async def test_a_transaction_that_costs_a_receiver_tokens_is_not_sent(lab, buyer):
    await lab.node.fund(wallet(91))

    def drain(result):
        held = result["value"]["accounts"][2]
        content = base64.b64decode(held["data"][0])
        held["data"][0] = base64.b64encode(content[:64] + bytes(8) + content[72:]).decode()

    lab.between.changes["simulateTransaction"] = changed(drain)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)


@pytest.mark.parametrize(
    "told", [None, {}, {"value": None}, {"value": {}}, {"value": {"err": None, "accounts": [1]}}]
)
async def test_a_node_that_answers_nonsense_proves_nothing(lab, buyer, told):
    lab.between.changes["simulateTransaction"] = reply(told)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)


# ---- what is sent, and what it proves


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("fee", [0, 40_000])
async def test_a_payment_is_proven_when_it_is_final_and_not_before(lab, buyer, token, fee):
    item, _ = await lab.accepted(buyer, token=token, fee=fee)
    coin = await lab.node.coin(RELAYER.pubkey)
    tx = await lab.sent(item)
    assert await lab.rail.relay.knows(tx.hash)
    for _ in range(FINAL - 1):
        assert await lab.rail.observer.mined([tx.hash]) == {}
        assert await lab.rail.observer.find([item]) == []
        await lab.slots(1)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)
    assert (paid.tx_hash, paid.value, paid.fee, paid.dest) == (tx.hash, PRICE, fee, MERCHANT)
    mined = (await lab.rail.observer.mined([tx.hash]))[tx.hash]
    assert mined.success
    # accounts were opened for whoever had none
    assert mined.gas_cost > 0
    assert mined.rent > 0
    assert mined.gas_cost + mined.rent == coin - await lab.node.coin(RELAYER.pubkey)
    kind = (TOKEN, TOKEN_2022)[token]
    assert await lab.node.tokens(wallet(91).pubkey(), kind) == PRICE - fee
    assert await lab.node.tokens(spl.pubkey(TREASURY), kind) == fee
    assert await lab.rail.observer.unpayable_reason(item, []) is None


async def test_the_same_item_is_always_the_same_transaction(lab, buyer):
    item, _ = await lab.accepted(buyer)
    assert await lab.rail.relay.sign(RELAYER.address, 0, [item]) == await lab.rail.relay.sign(
        RELAYER.address, 7, [item]
    )


async def test_a_payment_from_a_merchant_to_itself_is_proven_too(lab, buyer):
    item, _ = await lab.accepted(buyer, dest=buyer.address)
    await lab.sent(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)


async def test_money_that_is_gone_when_it_lands_is_a_failure_for_good(lab, buyer):
    item, issued = await lab.accepted(buyer)
    held = await lab.node.tokens(buyer.key.pubkey())
    moves = payment(buyer.key, wallet(8).pubkey(), held)
    await lab.node.send(await lab.node.made([buyer.key], *moves))
    assert await lab.rail.relay.simulate([item]) == [False]
    tx = await lab.sent(item)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.mined([tx.hash]))[tx.hash].success
    assert await lab.rail.observer.find([item]) == []
    reason = await lab.rail.observer.unpayable_reason(item, [issued])
    assert reason is not None
    assert "Custom" in reason


async def test_what_was_never_sent_is_dead_once_its_blockhash_lapsed_at_final_depth(lab, buyer):
    item, issued = await lab.accepted(buyer)
    made = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    last_valid = issued.terms["last_valid"]
    height = await lab.node.ask("getBlockHeight", {"commitment": "finalized"})
    await lab.slots(last_valid - height)
    tx = journaled(made, item)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])
    await lab.slots(1)
    assert (
        await lab.rail.observer.unpayable_reason(item, [issued])
        == "The transaction lapsed before it landed"
    )
    assert await lab.rail.observer.cannot_be_mined(tx, [issued])
    # without what was issued nobody knows until when it was good
    assert await lab.rail.observer.unpayable_reason(item, []) is None


async def test_a_node_that_lags_proves_no_absence(lab, buyer):
    item, issued = await lab.accepted(buyer)
    await lab.slots(400)
    behind = {"context": {"slot": 1}, "value": [None]}
    lab.between.changes["getSignatureStatuses"] = reply(behind)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.unpayable_reason(item, [issued])


async def test_statuses_that_lie_prove_no_payment(lab, buyer):
    """The error is looked at first, and the balances have the last word."""
    item, _ = await lab.accepted(buyer)
    await lab.sent(item)
    await lab.slots(FINAL)

    def failed(result):
        result["meta"]["err"] = {"InstructionError": [3, {"Custom": 1}]}

    def less(result):
        result["meta"]["postTokenBalances"][-1]["uiTokenAmount"]["amount"] = "1"

    def silent(result):
        result["meta"]["postTokenBalances"] = []

    for lie in (failed, less, silent):
        lab.between.changes["getTransaction"] = changed(lie)
        # a rail that remembers nothing
        rail = SolanaRail(settings(), RELAYER, lab.between)
        assert await rail.observer.find([item]) == []
    lab.between.changes.clear()
    assert len(await lab.rail.observer.find([item])) == 1


async def test_a_transaction_that_the_node_does_not_tell_proves_nothing(lab, buyer):
    item, _ = await lab.accepted(buyer)
    tx = await lab.sent(item)
    await lab.slots(FINAL)
    lab.between.changes["getTransaction"] = reply(None)
    assert await lab.rail.observer.mined([tx.hash]) == {}
    assert await lab.rail.observer.find([item]) == []


async def test_an_error_on_send_counts_only_if_the_chain_has_nothing(lab, buyer):
    item, _ = await lab.accepted(buyer)
    await lab.node.fault("answer", method="sendTransaction", effect="error", message="busy")
    with pytest.raises(RailUnavailable, match="busy"):
        await lab.sent(item)
    await lab.node.fault("answer", method="sendTransaction", effect="late_error")
    tx = await lab.sent(item)
    await lab.sent(item)
    assert await lab.rail.relay.knows(tx.hash)
    assert await lab.node.tokens(wallet(91).pubkey()) == PRICE


async def test_the_relayer_shows_its_address_only():
    assert repr(RELAYER) == f"SolanaSigner({RELAYER.address})"
    assert str(Keypair.from_seed(b"\x52" * 32).pubkey()) == RELAYER.address


def test_settings_that_cannot_be_are_refused():
    chain = SOLNET.chain_id
    for changes in (
        {"live": True},
        {"assets": (asset(), asset())},
        {"treasury": f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{TREASURY}"},
        {"treasury": "0x12"},
        {"reference": "abc"},
    ):
        with pytest.raises(ValueError, match=r"."):
            settings(**changes)
    assert settings(treasury=f"{chain}:{TREASURY}").treasury_account == f"{chain}:{TREASURY}"
    assert json.loads(settings().model_dump_json())["faucet"] is True
