"""What happened to a payment: told to its merchant, and with everything else to the operator."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio
from florin.v1 import listing_pb2, payment_pb2, trace_pb2

from tests.support.api import Refused
from tests.support.desk import ORDER
from tests.support.installation import operator_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with operator_of(desk.service) as operator:
        yield operator


def traced(payment_id: str) -> trace_pb2.TracePaymentRequest:
    return trace_pb2.TracePaymentRequest(payment_id=payment_id)


async def test_a_paid_payment_tells_its_way(desk, operator):
    offer = await desk.offer()
    await desk.confirm(offer)
    final = await desk.ended(offer.payment_id)
    path = f"/v1/payments/{offer.payment_id}/history"
    events = (await desk.rest.call("GET", path, desk.rest.merchant))["events"]
    way = [(one["version"], one["cause"], one["status"]) for one in events]
    assert way == [
        (0, "created", "requires_action"),
        (1, "confirm_accepted", "processing"),
        (2, "effect_final", "succeeded"),
    ]
    told = {"version", "status", "cause", "at", "requestId"}
    assert [set(one) for one in events] == [told] * 3
    # nobody asked for what the chain told
    assert [one["requestId"] is None for one in events] == [False, False, True]
    found = await operator.ask("TracePayment", traced(offer.payment_id))
    assert [one.event.cause for one in found.events] == [cause for _, cause, _ in way]
    details = [one.detail_json and json.loads(one.detail_json) for one in found.events]
    assert details == ["", {"optionId": offer.option_id}, {"txId": final["info"]["txId"]}]
    asked = [one.event.request_id for one in found.events]
    assert asked == [one["requestId"] or "" for one in events]
    (transaction,) = found.transactions
    assert transaction.hash == final["info"]["txId"]
    assert transaction.chain_id == "eip155:31337"
    assert transaction.block > 0
    assert transaction.confirmations >= 1
    assert found.payment.payment_id == offer.payment_id


async def history(desk, tenant, payment_id: str) -> list[tuple[str, str | None]]:
    """What happened to a payment, and by which request."""
    told = await desk.ask("GET", f"/v1/payments/{payment_id}/history", tenant.headers)
    return [(one["cause"], one["requestId"]) for one in told.body["events"]]


async def test_what_a_call_did_bears_the_id_that_its_caller_was_told(desk):
    tenant = await desk.tenant()
    made = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = made.body["paymentId"]
    over = await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers, {})
    # to ask again changes nothing, and leaves no mark
    again = await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers, {})
    ids = [one.headers["Request-Id"] for one in (made, over, again)]
    assert len(set(ids)) == 3
    assert await history(desk, tenant, payment_id) == [("created", ids[0]), ("cancel", ids[1])]


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_confirm_bears_the_id_that_its_caller_was_told(desk, accepted):
    offer = await desk.offer()
    outputs = offer.outputs if accepted else ["0x" + "11" * 65] * 3
    body = {
        "optionId": offer.option_id,
        "results": [{"type": "walletRpc", "data": outputs}],
    }
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    told = await desk.ask("POST", path, desk.rest.wallet, body)
    await desk.final(offer.payment_id)
    path = f"/v1/payments/{offer.payment_id}/history"
    event = (await desk.rest.call("GET", path, desk.rest.merchant))["events"][1]
    assert event["status"] == ("processing" if accepted else "failed")
    assert event["requestId"] == told.headers["Request-Id"]


async def test_a_request_that_its_caller_named_is_told_by_that_name(desk):
    tenant = await desk.tenant()
    for name, told in (("shop-4711.a_b", True), ("x" * 65, False), ("<b>&", False)):
        headers = {**tenant.headers, "Request-Id": name}
        made = await desk.ask("POST", "/v1/payments", headers, ORDER)
        ((_, request_id),) = await history(desk, tenant, made.body["paymentId"])
        assert request_id == made.headers["Request-Id"]
        assert (request_id == name) is told


async def test_what_nobody_asked_for_bears_no_id(desk):
    tenant = await desk.tenant()
    made = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    await desk.lapse(made.body["paymentId"])
    causes = await history(desk, tenant, made.body["paymentId"])
    assert causes[1:] == [("clock", None)]


async def test_a_link_names_a_payment_too(desk, operator):
    made = await desk.rest.create(ORDER)
    found = await operator.ask("TracePayment", traced(made["gatewayUrl"]))
    assert found.payment.payment_id == made["paymentId"]
    assert (len(found.events), len(found.transactions)) == (1, 0)


async def test_what_there_is_not_is_refused(desk, operator):
    for nothing in ("pay_" + "0" * 27, "x"):
        with pytest.raises(Refused) as refused:
            await operator.ask("TracePayment", traced(nothing))
        assert refused.value.code == "payment_not_found"
    request = listing_pb2.ListPartnerPaymentsRequest(partner_id="prtn_none")
    with pytest.raises(Refused) as refused:
        await operator.ask("ListPartnerPayments", request)
    assert refused.value.code == "partner_not_found"


async def test_the_operator_lists_what_a_partner_lists(desk, operator):
    owner, other = await desk.tenant(), await desk.tenant()
    for tenant in (owner, owner, other):
        await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    request = listing_pb2.ListPartnerPaymentsRequest(
        partner_id=owner.partner.id,
        filter=listing_pb2.ListPaymentsRequest(
            status=[payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION], limit=1
        ),
    )
    first = await operator.ask("ListPartnerPayments", request)
    assert first.stats.total_transactions == 2
    request.filter.cursor = first.next_cursor
    second = await operator.ask("ListPartnerPayments", request)
    ids = [row.payment_id for page in (first, second) for row in page.data]
    told = await desk.rest.call("GET", "/v1/payments", {"Api-Key": owner.secret})
    assert ids == [row["paymentId"] for row in told["data"]]
    # of somebody else's merchants nothing is found
    request.filter.ClearField("cursor")
    request.filter.merchant_id.append(other.merchant.id)
    assert len((await operator.ask("ListPartnerPayments", request)).data) == 0
    live = listing_pb2.ListPartnerPaymentsRequest(partner_id=owner.partner.id, live=True)
    assert len((await operator.ask("ListPartnerPayments", live)).data) == 0
