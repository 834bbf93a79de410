"""Durable nonces of the Solana rail: what is signed with one, and when it is provably dead."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from florin_server.chains.solana import spl
from florin_server.cli.service import doctor
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import FreeNonce
from florin_server.flows.operator.health import faults, of_nodes
from florin_server.rails.solana.paying.message import WalletBounds, acceptable
from florin_server.rails.solana.sending.durable_nonces import (
    RENT_MAX_LAMPORTS,
    RESERVE_LAMPORTS,
)
from florin_server.rails.types import RailUnavailable
from solders.instruction import Instruction

from tests.support.evm_lab import reply
from tests.support.solana import SolanaWallet, rebuilt, steps
from tests.support.solana_answers import changed
from tests.support.solana_kit import payment, wallet
from tests.support.solana_lab import FINAL, RELAYER, journaled, message, open_lab, outputs, signed
from tests.support.solana_nonce_steps import accepted, advance, spare


@pytest.fixture
async def lab():
    async with open_lab(durable_nonces=2) as lab:
        made = await lab.rail.durable_nonces.create(lab.rail.durable_nonces.addresses)
        await lab.rail.relay.broadcast(made.raw)
        await lab.slots(FINAL)
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


def listened(lab) -> list[str]:
    """How sure of accounts the rail wants to be from now on."""
    asked: list[str] = []
    lab.between.changes["getMultipleAccounts"] = lambda params, told: (
        asked.append(params[1]["commitment"]) or told
    )
    return asked


async def test_the_accounts_follow_from_the_relayer_and_are_made_once(lab):
    relayer = RELAYER.pubkey
    assert list(lab.rail.durable_nonces.addresses) == [
        str(spl.nonce_address(relayer, f"florin nonce {number}")) for number in range(2)
    ]
    asked = listened(lab)
    values = await lab.rail.durable_nonces.values(lab.rail.durable_nonces.addresses)
    assert asked == ["finalized"]
    assert set(values.held) == set(lab.rail.durable_nonces.addresses)
    coin = await lab.node.coin(relayer)
    again = await lab.rail.durable_nonces.create(lab.rail.durable_nonces.addresses)
    await lab.rail.relay.broadcast(again.raw)
    await lab.slots(FINAL)
    mined = (await lab.rail.observer.mined([again.hash]))[again.hash]
    assert not mined.success
    # a fee, and no rent
    assert coin - await lab.node.coin(relayer) == mined.gas_cost < 6_000
    assert await lab.rail.durable_nonces.values(lab.rail.durable_nonces.addresses) == replace(
        values, slot=values.slot + FINAL + 1
    )


async def test_four_are_used_by_default_and_none_where_that_is_set():
    async with open_lab() as lab:
        assert len(lab.rail.durable_nonces.addresses) == 4
    async with open_lab(durable_nonces=0) as lab:
        assert lab.rail.durable_nonces.addresses == ()


def holds(lab, lamports: int) -> None:
    lab.between.changes["getBalance"] = reply({"context": {"slot": 1}, "value": lamports})


async def test_relayer_makes_as_many_as_leave_it_its_reserve():
    async with open_lab() as lab:
        nonces = lab.rail.durable_nonces
        rent = await lab.node.ask("getMinimumBalanceForRentExemption", spl.NONCE_BYTES)
        needed = RESERVE_LAMPORTS + 4 * rent
        for lamports, count in (
            (0, 0),
            (RESERVE_LAMPORTS + rent - 1, 0),
            (RESERVE_LAMPORTS + rent, 1),
            (needed - 1, 3),
            (needed, 4),
        ):
            holds(lab, lamports)
            found = await nonces.affordable(4)
            assert found.count == count
            wanted = f"{RELAYER.address} needs {needed - lamports} lamports more"
            assert found.problem == "" if count == 4 else wanted in found.problem
        holds(lab, needed - 1)
        with pytest.raises(RailUnavailable, match="cannot pay for durable nonces"):
            await nonces.create(nonces.addresses)


async def test_node_that_asks_for_a_high_rent_locks_no_coin_up():
    async with open_lab() as lab:
        nonces = lab.rail.durable_nonces
        for rent, count in ((RENT_MAX_LAMPORTS, 4), (RENT_MAX_LAMPORTS + 1, 0), (10**10, 0)):
            lab.between.changes["getMinimumBalanceForRentExemption"] = reply(rent)
            found = await nonces.affordable(4)
            assert (found.count, bool(found.problem)) == (count, count == 0)
        with pytest.raises(RailUnavailable, match="cannot pay for durable nonces"):
            await nonces.create(nonces.addresses)


async def test_what_the_relayer_cannot_pay_for_is_a_notice_and_no_fault():
    async with open_lab() as lab:
        missing = ConditionName.DURABLE_NONCES_MISSING
        assert (await of_nodes(lab.rail))[missing] == ()
        holds(lab, RESERVE_LAMPORTS)
        (text,) = (await of_nodes(lab.rail))[missing]
        assert text.startswith("Florin Solana Devnet: 4 durable nonces are missing")
        assert await faults(lab.rail) == ()


async def test_doctor_of_a_stopped_service_says_it_and_finds_no_fault(monkeypatch):
    async with open_lab() as lab:
        monkeypatch.setattr(doctor.connected, "rail_of", lambda _chain, _keys: lab.rail)
        holds(lab, RESERVE_LAMPORTS)
        found = [one async for one in doctor.of_chain(lab.rail.chain, None)]
        assert [subject for subject, _ in found if "durable nonces are missing" in subject]
        assert [problem for _, problem in found if problem] == []


async def test_a_nonce_comes_first_and_stands_for_the_blockhash(lab, buyer):
    item, issued = await accepted(lab, buyer)
    held = await spare(lab)
    first, *others = steps(message(issued))
    assert (first.program_id, bytes(first.data)) == (spl.SYSTEM, spl.ADVANCE_NONCE)
    assert str(first.accounts[0].pubkey) == held.address
    assert first.accounts[2].pubkey == RELAYER.pubkey
    assert spl.ADVANCE_NONCE not in {bytes(one.data) for one in others}
    assert str(message(issued).recent_blockhash) == held.value
    assert issued.terms.keys() == {"message", "nonce", "slot"}
    assert await lab.built(item.option, [issued]) is None


async def test_what_the_payer_signed_is_told_without_the_chain(lab, buyer):
    item, issued = await accepted(lab, buyer)
    option, outputs = item.option, item.confirmation.outputs
    before = lab.rail.rpc.requests
    assert lab.rail.verifier.plausible(option, [issued], outputs) is True
    # signed by somebody else, never issued, or no transaction at all
    raw = bytearray(base64.b64decode(json.loads(outputs[0])))
    raw[1 + 64] ^= 1
    forged = json.dumps(base64.b64encode(raw).decode())
    for wrong in ([forged], ['"AAAA"'], ["7"], ["{"], [*outputs, *outputs], []):
        assert lab.rail.verifier.plausible(option, [issued], wrong) is False
    assert lab.rail.verifier.plausible(option, [], outputs) is False
    assert lab.rail.rpc.requests == before


async def test_what_is_signed_with_a_nonce_does_not_lapse_by_time(lab, buyer):
    item, issued = await accepted(lab, buyer)
    await lab.slots(5_300)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    await advance(lab, 1)
    await lab.slots(FINAL)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    await lab.rail.verifier.verify(item.option, [issued], item.confirmation.outputs)
    assert await lab.built(item.option, [issued]) is None
    tx = await lab.sent(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)
    # its nonce has another value, and it landed: neither dead nor gone
    assert (await spare(lab)).value != str(message(issued).recent_blockhash)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])


async def test_it_is_dead_once_its_nonce_was_advanced_at_final_depth(lab, buyer):
    item, issued = await accepted(lab, buyer)
    tx = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    await advance(lab)
    await lab.slots(FINAL)
    asked = listened(lab)
    reason = await lab.rail.observer.unpayable_reason(item, [issued])
    assert reason == "The transaction's nonce was used up before it landed"
    assert asked == ["finalized"]
    assert await lab.rail.observer.cannot_be_mined(journaled(tx, item), [issued])
    # and it is: the chain takes it no more
    await lab.rail.relay.broadcast(tx.raw)
    assert not await lab.rail.relay.knows(tx.hash)
    assert await lab.rail.relay.simulate([item]) == [False]
    # the wallet is told another one
    fresh = await lab.built(item.option, [issued])
    assert fresh is not None
    assert "last_valid" in fresh.terms


async def test_an_older_value_of_a_nonce_proves_nothing(lab, buyer):
    """A node that lags tells what the nonce was before it was given out."""
    await advance(lab)
    await lab.slots(FINAL)
    item, issued = await accepted(lab, buyer)

    def older(result):
        result["context"]["slot"] = issued.terms["slot"] - 1
        content = bytearray(80)
        content[:8] = (1).to_bytes(4, "little") * 2
        content[8:40] = bytes(RELAYER.pubkey)
        result["value"][0]["data"][0] = base64.b64encode(bytes(content)).decode()

    lab.between.changes["getMultipleAccounts"] = changed(older)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.unpayable_reason(item, [issued])


@pytest.mark.parametrize(
    "told", [None, {"lamports": 1, "owner": str(spl.SYSTEM), "data": ["", "base64"]}]
)
async def test_a_nonce_that_is_not_told_proves_nothing(lab, buyer, told):
    item, issued = await accepted(lab, buyer)
    await advance(lab)
    await lab.slots(FINAL)
    slot = await lab.node.ask("getSlot")
    answer = {"context": {"slot": slot}, "value": [told]}
    lab.between.changes["getMultipleAccounts"] = reply(answer)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None


async def test_a_node_that_lost_the_transaction_is_believed_only_as_far_as_it_is(lab, buyer):
    item, issued = await accepted(lab, buyer)
    await lab.sent(item)
    await lab.slots(FINAL)
    behind = {"context": {"slot": 1}, "value": [None]}
    lab.between.changes["getSignatureStatuses"] = reply(behind)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.unpayable_reason(item, [issued])


async def test_a_transaction_that_failed_used_its_nonce_up(lab, buyer):
    item, issued = await accepted(lab, buyer)
    held = await lab.node.tokens(buyer.key.pubkey())
    moves = payment(buyer.key, wallet(8).pubkey(), held)
    await lab.node.send(await lab.node.made([buyer.key], *moves))
    tx = await lab.sent(item)
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.mined([tx.hash]))[tx.hash].success
    assert (await spare(lab)).value != str(message(issued).recent_blockhash)
    assert "Custom" in (await lab.rail.observer.unpayable_reason(item, [issued]))


async def test_two_issues_with_one_value_are_told_apart_by_their_nonces(lab, buyer):
    """Nonces that are advanced in one block have one value."""
    values = await lab.rail.durable_nonces.values(lab.rail.durable_nonces.addresses)
    first, second = lab.rail.durable_nonces.addresses
    assert values.held[first] == values.held[second]
    _, option = await lab.offer(buyer)
    one = await lab.built(option, [], FreeNonce(first, values.held[first], values.slot))
    await advance(lab)
    await lab.slots(FINAL)
    two = await lab.built(option, [one], FreeNonce(second, values.held[second], values.slot))
    assert two is not None
    await lab.rail.verifier.verify(option, [two, one], outputs(signed(buyer, two)))
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, [two, one], outputs(signed(buyer, one)))
    assert caught.value.code is Code.QUOTE_EXPIRED


async def test_a_guard_in_front_would_make_the_nonce_useless(lab, buyer):
    _, issued = await accepted(lab, buyer)
    ours = message(issued)
    guard = Instruction(spl.LIGHTHOUSE, b"\x0enote", [])
    bounds = WalletBounds(0, 0)
    own = steps(ours)
    in_front = rebuilt(ours, [guard, *own]).message
    behind = rebuilt(ours, [*own, guard]).message
    without = rebuilt(ours, own[1:]).message
    assert acceptable(ours, behind, bounds)
    assert not acceptable(ours, in_front, bounds)
    assert not acceptable(ours, without, bounds)
