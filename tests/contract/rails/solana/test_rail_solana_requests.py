"""Test what a node's answers about wallets' own transactions prove on Solana."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from florin_server.rails.types import (
    MentionQuery,
    RailUnavailable,
    ReceiverUnavailable,
)
from solders.hash import Hash
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from tests.support.evm_harness import make_reply
from tests.support.solana import SolanaTestWallet
from tests.support.solana_answers import make_result_change
from tests.support.solana_rail_harness import (
    MERCHANT,
    TREASURY,
    open_lab,
)
from tests.support.solana_requests import FEE, offer_request, open_receivers, pay_request


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        await open_receivers(lab)
        yield lab


@pytest.fixture
def wallet() -> SolanaTestWallet:
    return SolanaTestWallet()


@pytest.mark.parametrize("version", [-1, 0])
async def test_final_transaction_of_any_version_proves_its_option(lab, wallet, version):
    payment, option, signature = await pay_request(lab, wallet, version=version)
    requests = lab.rail.transaction_requests
    (page,) = await requests.list_mentions([MentionQuery(requests.get_address(payment))])
    assert [(item.tx_hash, item.reference) for item in page] == [(signature, option.reference)]
    (event,) = (await requests.find_events([(signature, option)])).events
    assert lab.rail.terms.is_proven(option, event)
    assert (event.dest, event.fee_to, event.fee) == (MERCHANT, TREASURY, FEE)
    assert event.time is not None
    # another option of the payment is not paid by it
    other = replace(option, terms={**option.terms, "ref": str(Hash.default())})
    assert (await requests.find_events([(signature, other)])).events == ()


async def test_receiver_without_an_account_gets_no_transaction(wallet):
    async with open_lab() as lab:
        payment, option = await offer_request(lab, wallet)
        with pytest.raises(ReceiverUnavailable, match="has no account for the token"):
            await lab.rail.transaction_requests.build_transaction(payment, option)


async def test_commitment_of_an_option_says_that_its_wallet_sends_it(lab, wallet):
    _, option = await offer_request(lab, wallet)
    commitment = lab.rail.terms.get_commitment(option)
    assert commitment.steps == ("direct",)
    assert option.reference == lab.rail.terms.get_reference(option)


def drop(*path: str) -> Any:
    def tamper(result: Any) -> Any:
        part = result
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = None
        return result

    return tamper


def forge(result: Any) -> Any:
    """Return the transaction with another payer's signature in place of the first."""
    transaction = VersionedTransaction.from_bytes(base64.b64decode(result["transaction"][0]))
    forged = VersionedTransaction.populate(
        transaction.message, [Keypair().sign_message(b"other") for _ in transaction.signatures]
    )
    result["transaction"][0] = base64.b64encode(bytes(forged)).decode()
    return result


@pytest.mark.parametrize(
    "tamper",
    [drop("blockTime"), drop("meta", "preTokenBalances"), forge],
    ids=["no time", "no balances", "forged"],
)
async def test_incomplete_or_forged_answer_proves_nothing_and_is_read_again(lab, wallet, tamper):
    _, option, signature = await pay_request(lab, wallet)
    requests = lab.rail.transaction_requests
    lab.transport.changes["getTransaction"] = make_result_change(tamper)
    result = await requests.find_events([(signature, option)])
    assert (result.events, result.unread) == ((), frozenset({signature}))
    lab.transport.changes.clear()
    assert len((await requests.find_events([(signature, option)])).events) == 1


async def test_transaction_that_the_node_does_not_have_is_read_again(lab, wallet):
    _, option, signature = await pay_request(lab, wallet)
    lab.transport.changes["getTransaction"] = make_reply(None)
    result = await lab.rail.transaction_requests.find_events([(signature, option)])
    assert (result.events, result.unread) == ((), frozenset({signature}))


async def test_failed_transaction_has_no_reference_in_a_listing(lab, wallet):
    payment, _, _ = await pay_request(lab, wallet)
    requests = lab.rail.transaction_requests

    def fail(result: Any) -> Any:
        for entry in result:
            entry["err"] = {"InstructionError": [0, "Custom"]}
        return result

    lab.transport.changes["getSignaturesForAddress"] = make_result_change(fail)
    (page,) = await requests.list_mentions([MentionQuery(requests.get_address(payment))])
    assert [item.reference for item in page] == [""]


@pytest.mark.parametrize("answer", [{}, [{"memo": None, "err": None}], [7]])
async def test_malformed_listing_is_no_listing(lab, wallet, answer):
    payment, _, _ = await pay_request(lab, wallet)
    requests = lab.rail.transaction_requests
    lab.transport.changes["getSignaturesForAddress"] = make_reply(answer)
    with pytest.raises(RailUnavailable):
        await requests.list_mentions([MentionQuery(requests.get_address(payment))])


async def test_malformed_listing_of_one_address_loses_no_other(lab, wallet):
    payment, option, signature = await pay_request(lab, wallet)
    requests = lab.rail.transaction_requests
    address, other = requests.get_address(payment), str(Keypair().pubkey())

    def spoil(params: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "result": [7]} if params[0] == other else answer

    lab.transport.changes["getSignaturesForAddress"] = spoil
    spoiled, page = await requests.list_mentions([MentionQuery(other), MentionQuery(address)])
    assert spoiled is None
    assert [(item.tx_hash, item.reference) for item in page] == [(signature, option.reference)]
    assert page[0].block_number > 0


async def test_listing_without_slots_is_complete(lab, wallet):
    payment, _, signature = await pay_request(lab, wallet)
    requests = lab.rail.transaction_requests

    def remove_slots(result: Any) -> None:
        for entry in result:
            del entry["slot"]

    lab.transport.changes["getSignaturesForAddress"] = make_result_change(remove_slots)
    (page,) = await requests.list_mentions([MentionQuery(requests.get_address(payment))])
    assert [(item.tx_hash, item.block_number) for item in page] == [(signature, None)]
