"""Test durable nonces of the Solana rail: what uses them, and when they are provably dead."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from florin_server.cli.service import doctor
from florin_server.domain.chains.solana import spl
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import FreeNonce
from florin_server.features.monitoring.service.health import check_nodes, list_node_faults
from florin_server.rails.solana.paying.message import WalletBounds, is_acceptable
from florin_server.rails.solana.sending.durable_nonces import RENT_MAX_LAMPORTS, RESERVE_LAMPORTS
from florin_server.rails.types import RailUnavailable
from solders.instruction import Instruction

from tests.support.evm_harness import make_reply
from tests.support.solana import SolanaTestWallet, list_instructions, rebuild_transaction
from tests.support.solana_answers import make_result_change
from tests.support.solana_devnet import make_payment, make_wallet
from tests.support.solana_nonce_actions import accept_payment, advance_nonce, get_free_nonce
from tests.support.solana_rail_harness import (
    FINAL,
    RELAYER,
    get_message,
    make_chain_tx,
    make_outputs,
    open_lab,
    sign_build,
)


@pytest.fixture
async def lab():
    async with open_lab(durable_nonces=2) as lab:
        signed_transaction = await lab.rail.durable_nonces.sign_creation(
            lab.rail.durable_nonces.addresses
        )
        await lab.rail.relay.broadcast(signed_transaction.raw)
        await lab.slots(FINAL)
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


def listened(lab) -> list[str]:
    """Record the commitment of all later account reads."""
    requests: list[str] = []
    lab.transport.changes["getMultipleAccounts"] = lambda params, result: (
        requests.append(params[1]["commitment"]) or result
    )
    return requests


async def test_nonce_accounts_are_derived_from_the_relayer_and_created_once(lab):
    relayer = RELAYER.pubkey
    assert list(lab.rail.durable_nonces.addresses) == [
        str(spl.derive_nonce_address(relayer, f"florin nonce {number}")) for number in range(2)
    ]
    requests = listened(lab)
    values = await lab.rail.durable_nonces.get_values(lab.rail.durable_nonces.addresses)
    assert requests == ["finalized"]
    assert set(values.by_account) == set(lab.rail.durable_nonces.addresses)
    coin = await lab.node.coin(relayer)
    again = await lab.rail.durable_nonces.sign_creation(lab.rail.durable_nonces.addresses)
    await lab.rail.relay.broadcast(again.raw)
    await lab.slots(FINAL)
    mined = (await lab.rail.observer.find_mined([again.hash]))[again.hash]
    assert not mined.success
    # a fee and no rent
    assert coin - await lab.node.coin(relayer) == mined.gas_cost < 6_000
    assert await lab.rail.durable_nonces.get_values(lab.rail.durable_nonces.addresses) == replace(
        values, slot=values.slot + FINAL + 1
    )


async def test_four_are_used_by_default_and_none_where_that_is_set():
    async with open_lab() as lab:
        assert len(lab.rail.durable_nonces.addresses) == 4
    async with open_lab(durable_nonces=0) as lab:
        assert lab.rail.durable_nonces.addresses == ()


def holds(lab, lamports: int) -> None:
    lab.transport.changes["getBalance"] = make_reply({"context": {"slot": 1}, "value": lamports})


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
            affordable_accounts = await nonces.get_affordable(4)
            assert affordable_accounts.count == count
            expected = f"{RELAYER.address} needs {needed - lamports} lamports more"
            assert (
                affordable_accounts.problem == ""
                if count == 4
                else expected in affordable_accounts.problem
            )
        holds(lab, needed - 1)
        with pytest.raises(RailUnavailable, match="cannot pay for durable nonces"):
            await nonces.sign_creation(nonces.addresses)


async def test_node_that_asks_for_a_high_rent_locks_no_coin_up():
    async with open_lab() as lab:
        nonces = lab.rail.durable_nonces
        for rent, count in ((RENT_MAX_LAMPORTS, 4), (RENT_MAX_LAMPORTS + 1, 0), (10**10, 0)):
            lab.transport.changes["getMinimumBalanceForRentExemption"] = make_reply(rent)
            affordable_accounts = await nonces.get_affordable(4)
            assert (affordable_accounts.count, bool(affordable_accounts.problem)) == (
                count,
                count == 0,
            )
        with pytest.raises(RailUnavailable, match="cannot pay for durable nonces"):
            await nonces.sign_creation(nonces.addresses)


async def test_unaffordable_nonce_accounts_are_a_notice_and_no_fault():
    async with open_lab() as lab:
        missing = ConditionName.DURABLE_NONCES_MISSING
        assert (await check_nodes(lab.rail))[missing] == ()
        holds(lab, RESERVE_LAMPORTS)
        (text,) = (await check_nodes(lab.rail))[missing]
        assert text.startswith("Florin Solana Devnet: 4 durable nonces are missing")
        assert await list_node_faults(lab.rail) == ()


async def test_doctor_of_a_stopped_service_says_it_and_finds_no_fault(monkeypatch):
    async with open_lab() as lab:
        monkeypatch.setattr(doctor.connected, "build_rail", lambda _chain, _keys: lab.rail)
        holds(lab, RESERVE_LAMPORTS)
        results = [item async for item in doctor.check_chain(lab.rail.chain, None)]
        assert [subject for subject, _ in results if "durable nonces are missing" in subject]
        assert [problem for _, problem in results if problem] == []


async def test_a_nonce_comes_first_and_stands_for_the_blockhash(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    held = await get_free_nonce(lab)
    first, *instructions = list_instructions(get_message(issued))
    assert (first.program_id, bytes(first.data)) == (spl.SYSTEM, spl.ADVANCE_NONCE)
    assert str(first.accounts[0].pubkey) == held.address
    assert first.accounts[2].pubkey == RELAYER.pubkey
    assert spl.ADVANCE_NONCE not in {bytes(instruction.data) for instruction in instructions}
    assert str(get_message(issued).recent_blockhash) == held.value
    assert issued.terms.keys() == {"message", "nonce", "slot"}
    assert await lab.resolve_build(item.option, [issued]) is None


async def test_payer_signature_is_checked_without_the_chain(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    option, outputs = item.option, item.confirmation.outputs
    before = lab.rail.rpc.request_count
    assert lab.rail.verifier.is_plausible(option, [issued], outputs) is True
    # signed by another key, never issued, or no transaction at all
    raw = bytearray(base64.b64decode(json.loads(outputs[0])))
    raw[1 + 64] ^= 1
    forged = json.dumps(base64.b64encode(raw).decode())
    for wrong in ([forged], ['"AAAA"'], ["7"], ["{"], [*outputs, *outputs], []):
        assert lab.rail.verifier.is_plausible(option, [issued], wrong) is False
    assert lab.rail.verifier.is_plausible(option, [], outputs) is False
    assert lab.rail.rpc.request_count == before


async def test_transaction_with_a_durable_nonce_does_not_lapse_by_time(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    await lab.slots(5_300)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    await advance_nonce(lab, 1)
    await lab.slots(FINAL)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    await lab.rail.verifier.verify(item.option, [issued], item.confirmation.outputs)
    assert await lab.resolve_build(item.option, [issued]) is None
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)
    # the nonce has a new value, because the transaction landed: neither dead nor gone
    assert (await get_free_nonce(lab)).value != str(get_message(issued).recent_blockhash)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])


async def test_it_is_dead_once_its_nonce_was_advanced_at_final_depth(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    tx = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    await advance_nonce(lab)
    await lab.slots(FINAL)
    # a node can read accounts ahead of the transactions that changed them
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    await lab.slots(8)
    requests = listened(lab)
    reason = await lab.rail.observer.find_unpayable_reason(item, [issued])
    assert reason == "The transaction's nonce was used up before it landed"
    assert requests == ["finalized"]
    assert await lab.rail.observer.cannot_be_mined(make_chain_tx(tx, item), [issued])
    # and it is dead: the chain refuses it
    await lab.rail.relay.broadcast(tx.raw)
    assert not await lab.rail.relay.has_transaction(tx.hash)
    assert await lab.rail.relay.simulate([item]) == [False]
    # the wallet gets another value
    fresh = await lab.resolve_build(item.option, [issued])
    assert fresh is not None
    assert "last_valid" in fresh.terms


async def test_an_older_value_of_a_nonce_proves_nothing(lab, buyer):
    """A lagging node returns the nonce's value from before it was assigned."""
    await advance_nonce(lab)
    await lab.slots(FINAL)
    item, issued = await accept_payment(lab, buyer)

    def older(result):
        result["context"]["slot"] = issued.terms["slot"] - 1
        content = bytearray(80)
        content[:8] = (1).to_bytes(4, "little") * 2
        content[8:40] = bytes(RELAYER.pubkey)
        result["value"][0]["data"][0] = base64.b64encode(bytes(content)).decode()

    lab.transport.changes["getMultipleAccounts"] = make_result_change(older)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.find_unpayable_reason(item, [issued])


@pytest.mark.parametrize(
    "account", [None, {"lamports": 1, "owner": str(spl.SYSTEM), "data": ["", "base64"]}]
)
async def test_unreadable_nonce_account_proves_nothing(lab, buyer, account):
    item, issued = await accept_payment(lab, buyer)
    await advance_nonce(lab)
    await lab.slots(FINAL)
    slot = await lab.node.ask("getSlot")
    answer = {"context": {"slot": slot}, "value": [account]}
    lab.transport.changes["getMultipleAccounts"] = make_reply(answer)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None


async def test_a_node_that_lost_the_transaction_is_believed_only_as_far_as_it_is(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    await lab.submit_item(item)
    await lab.slots(FINAL)
    behind = {"context": {"slot": 1}, "value": [None]}
    lab.transport.changes["getSignatureStatuses"] = make_reply(behind)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.find_unpayable_reason(item, [issued])


async def test_a_transaction_that_failed_used_its_nonce_up(lab, buyer):
    item, issued = await accept_payment(lab, buyer)
    held = await lab.node.tokens(buyer.key.pubkey())
    moves = make_payment(buyer.key, make_wallet(8).pubkey(), held)
    await lab.node.send(await lab.node.make_transaction([buyer.key], *moves))
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.find_mined([tx.hash]))[tx.hash].success
    assert (await get_free_nonce(lab)).value != str(get_message(issued).recent_blockhash)
    assert "Custom" in (await lab.rail.observer.find_unpayable_reason(item, [issued]))


async def test_two_builds_with_the_same_nonce_value_are_distinguished_by_account(lab, buyer):
    """Nonces that are advanced in one block have equal values."""
    values = await lab.rail.durable_nonces.get_values(lab.rail.durable_nonces.addresses)
    first, second = lab.rail.durable_nonces.addresses
    assert values.by_account[first] == values.by_account[second]
    _, option = await lab.offer(buyer)
    item = await lab.resolve_build(
        option, [], FreeNonce(first, values.by_account[first], values.slot)
    )
    await advance_nonce(lab)
    await lab.slots(FINAL)
    two = await lab.resolve_build(
        option, [item], FreeNonce(second, values.by_account[second], values.slot)
    )
    assert two is not None
    await lab.rail.verifier.verify(option, [two, item], make_outputs(sign_build(buyer, two)))
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, [two, item], make_outputs(sign_build(buyer, item)))
    assert caught.value.code is ErrorCode.QUOTE_EXPIRED


async def test_a_guard_in_front_would_make_the_nonce_useless(lab, buyer):
    _, issued = await accept_payment(lab, buyer)
    ours = get_message(issued)
    guard = Instruction(spl.LIGHTHOUSE, b"\x0enote", [])
    bounds = WalletBounds(0, 0)
    own = list_instructions(ours)
    in_front = rebuild_transaction(ours, [guard, *own]).message
    behind = rebuild_transaction(ours, [*own, guard]).message
    without = rebuild_transaction(ours, own[1:]).message
    assert is_acceptable(ours, behind, bounds)
    assert not is_acceptable(ours, in_front, bounds)
    assert not is_acceptable(ours, without, bounds)
