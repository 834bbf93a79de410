"""Test what a payment, an option and a transaction report about themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payments.payment import (
    Action,
    BuildAction,
    Confirmation,
    Destination,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.domain.payments.triggers import SandboxTrigger, find_trigger
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    SettlementItem,
    TransactionVariant,
    TxState,
)

PAYER = "eip155:8453:0x" + "11" * 20
PAYMENT = Payment(
    id="pay_1",
    partner_id="ptnr_1",
    merchant_id="mrch_1",
    live=False,
    status=PaymentStatus.REQUIRES_ACTION,
    version=0,
    unit="iso4217/USD",
    value=1_000,
    reference_id="order-1",
    success_url=None,
    error_url=None,
    salt=bytes(16),
    created_at_us=1_000_000,
    updated_at_us=1_000_000,
    expires_at=10,
)
CALL, MORE = (Action("eip155:8453", "eth_sendTransaction", text) for text in ("[1]", "[2]"))
BUILD = BuildAction("later")
OPTION = PaymentOption(
    id="option-1",
    payment_id=PAYMENT.id,
    account=PAYER,
    payer=PAYER,
    chain_id="eip155:8453",
    asset="eip155:8453/slip44:60",
    value=1,
    eta_s=2,
    expires_at=None,
    method="direct",
    actions=(CALL,),
    terms={},
    created_at_us=1,
)


def issued(n: int, *actions: Action) -> ResolvedBuild:
    return ResolvedBuild(PAYMENT.id, OPTION.id, n, actions, {}, head=1, issued_at_us=1)


@pytest.mark.parametrize("status", PaymentStatus)
def test_only_an_unconfirmed_payment_expires(status):
    payment = replace(PAYMENT, status=status)
    assert payment.with_expiry(9_999_999) == payment
    lapsed = status is PaymentStatus.REQUIRES_ACTION
    assert payment.with_expiry(10_000_000).status is (PaymentStatus.EXPIRED if lapsed else status)
    assert status.is_final is (
        status not in {PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"florin_test:{trigger.value}", trigger) for trigger in SandboxTrigger),
        ("florin_test:stall:order-7", SandboxTrigger.STALL),
        ("florin_test:stall:", SandboxTrigger.STALL),
        ("florin_test:", None),
        ("florin_test:Stall", None),
        ("florin_test:other", None),
        ("florin_test:other:stall", None),
        ("florin_test:florin_test:stall", None),
        ("stall", None),
        ("xflorin_test:stall", None),
        ("", None),
    ],
)
def test_a_reference_id_asks_for_an_outcome(text, expected):
    assert find_trigger(text) is expected
    assert replace(PAYMENT, reference_id=text).trigger is expected
    assert replace(PAYMENT, reference_id=text, live=True).trigger is None


def test_no_block_before_an_offer_holds_its_effect_however_deep_blocks_are_replaced():
    offered = replace(OPTION, head=100)
    assert offered.first_block(12, default_head=500) == 88
    assert OPTION.first_block(12, default_head=500) == 488
    assert replace(OPTION, head=0).first_block(12, default_head=500) == 0
    assert replace(OPTION, head=12).first_block(12, default_head=500) == 0
    assert replace(OPTION, head=13).first_block(12, default_head=500) == 1


def test_resolved_actions_combine_inline_actions_and_builds():
    assert (OPTION.build, OPTION.resolve_actions(())) == (None, (CALL,))
    built = replace(OPTION, actions=(CALL, BUILD, MORE))
    assert built.build is BUILD
    assert built.resolve_actions(()) is None
    both = [issued(0, MORE, CALL), issued(1, MORE, MORE)]
    assert built.resolve_actions(both) == (CALL, MORE, CALL, MORE)


def test_destination_asset_key_is_lower_case():
    lower = "eip155:8453/erc20:0x" + "ab" * 20
    destination = Destination("dest_1", "mrch_1", lower.replace("ab", "aB"), PAYER)
    assert destination.asset_key == lower


def test_a_transaction_is_any_of_its_variants():
    sent = ChainTx(
        id="tx_1",
        chain_id="eip155:8453",
        sender="0x" + "22" * 20,
        nonce=1,
        raw=b"first",
        hash="0x01",
        payment_ids=("pay_1",),
        state=TxState.SENT,
        created_at_us=1,
    )
    assert sent.variants == (TransactionVariant(b"first", "0x01"),)
    bumped = replace(
        sent, bumps=(TransactionVariant(b"more", "0x02"), TransactionVariant(b"most", "0x03"))
    )
    assert [variant.raw for variant in bumped.variants] == [b"first", b"more", b"most"]
    assert bumped.hashes == ("0x01", "0x02", "0x03")


@pytest.mark.parametrize(
    ("head", "from_block", "first"), [(100, 95, 88), (100, 80, 80), (None, 95, 83)]
)
def test_a_payment_may_have_been_settled_before_its_confirm(head, from_block, first):
    confirmation = Confirmation(PAYMENT.id, OPTION.id, ("{}",), b"", 1)
    accepted = SettlementItem(
        PAYMENT, replace(OPTION, head=head), confirmation, from_block, app="app_1"
    )
    assert accepted.extend_to_offer(12) == replace(accepted, from_block=first)
