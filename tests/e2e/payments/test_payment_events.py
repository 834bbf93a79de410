"""A payment's events: its own for the merchant, and with all related data for the operator."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio
from florin.v1 import listing_pb2, payment_pb2, trace_pb2

from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.service_harness import ORDER

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator


def traced(payment_id: str) -> trace_pb2.TracePaymentRequest:
    return trace_pb2.TracePaymentRequest(payment_id=payment_id)


async def test_history_of_a_paid_payment_lists_its_events(desk, operator):
    offer = await desk.offer()
    await desk.confirm(offer)
    final = await desk.wait_ended(offer.payment_id)
    path = f"/v1/payments/{offer.payment_id}/history"
    events = (await desk.rest.call("GET", path, desk.rest.merchant))["events"]
    way = [(event["version"], event["cause"], event["status"]) for event in events]
    assert way == [
        (0, "created", "requires_action"),
        (1, "confirm_accepted", "processing"),
        (2, "effect_final", "succeeded"),
    ]
    reported_result = {"version", "status", "cause", "at", "requestId"}
    assert [set(event) for event in events] == [reported_result] * 3
    # no request caused the event from the chain
    assert [event["requestId"] is None for event in events] == [False, False, True]
    result = await operator.call("TracePayment", traced(offer.payment_id))
    assert [event.event.cause for event in result.events] == [cause for _, cause, _ in way]
    details = [event.detail_json and json.loads(event.detail_json) for event in result.events]
    assert details == ["", {"optionId": offer.option_id}, {"txId": final["info"]["txId"]}]
    requests = [event.event.request_id for event in result.events]
    assert requests == [event["requestId"] or "" for event in events]
    (transaction,) = result.transactions
    assert transaction.hash == final["info"]["txId"]
    assert transaction.chain_id == "eip155:31337"
    assert transaction.block > 0
    assert transaction.confirmations >= 1
    assert result.payment.payment_id == offer.payment_id


async def history(desk, tenant, payment_id: str) -> list[tuple[str, str | None]]:
    """Return the events of a payment, and the request that caused each."""
    result = await desk.ask("GET", f"/v1/payments/{payment_id}/history", tenant.headers)
    return [(event["cause"], event["requestId"]) for event in result.body["events"]]


async def test_payment_event_carries_the_request_id_of_its_call(desk):
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created.body["paymentId"]
    over = await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers, {})
    # repeating the request changes nothing, and leaves no event
    again = await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers, {})
    ids = [item.headers["Request-Id"] for item in (created, over, again)]
    assert len(set(ids)) == 3
    assert await history(desk, tenant, payment_id) == [("created", ids[0]), ("cancel", ids[1])]


@pytest.mark.parametrize("accepted", [True, False])
async def test_confirm_event_carries_the_request_id_of_its_call(desk, accepted):
    offer = await desk.offer()
    outputs = offer.outputs if accepted else ["0x" + "11" * 65] * 3
    body = {
        "optionId": offer.option_id,
        "results": [{"type": "walletRpc", "data": outputs}],
    }
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    result = await desk.ask("POST", path, desk.rest.wallet, body)
    await desk.wait_final(offer.payment_id)
    path = f"/v1/payments/{offer.payment_id}/history"
    event = (await desk.rest.call("GET", path, desk.rest.merchant))["events"][1]
    assert event["status"] == ("processing" if accepted else "failed")
    assert event["requestId"] == result.headers["Request-Id"]


async def test_valid_request_id_of_a_caller_is_used(desk):
    tenant = await desk.tenant()
    for name, result in (("shop-4711.a_b", True), ("x" * 65, False), ("<b>&", False)):
        headers = {**tenant.headers, "Request-Id": name}
        created = await desk.ask("POST", "/v1/payments", headers, ORDER)
        ((_, request_id),) = await history(desk, tenant, created.body["paymentId"])
        assert request_id == created.headers["Request-Id"]
        assert (request_id == name) is result


async def test_event_without_a_call_has_no_request_id(desk):
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    await desk.wait_lapsed(created.body["paymentId"])
    causes = await history(desk, tenant, created.body["paymentId"])
    assert causes[1:] == [("clock", None)]


async def test_a_link_names_a_payment_too(desk, operator):
    created = await desk.rest.create(ORDER)
    result = await operator.call("TracePayment", traced(created["gatewayUrl"]))
    assert result.payment.payment_id == created["paymentId"]
    assert (len(result.events), len(result.transactions)) == (1, 0)


async def test_unknown_payment_or_partner_is_refused(desk, operator):
    for nothing in ("pay_" + "0" * 27, "x"):
        with pytest.raises(ApiCallError) as refused:
            await operator.call("TracePayment", traced(nothing))
        assert refused.value.code == "payment_not_found"
    request = listing_pb2.ListPartnerPaymentsRequest(partner_id="prtn_none")
    with pytest.raises(ApiCallError) as refused:
        await operator.call("ListPartnerPayments", request)
    assert refused.value.code == "partner_not_found"


async def test_operator_lists_the_payments_of_a_partner(desk, operator):
    owner, other = await desk.tenant(), await desk.tenant()
    for tenant in (owner, owner, other):
        await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    request = listing_pb2.ListPartnerPaymentsRequest(
        partner_id=owner.partner.id,
        filter=listing_pb2.ListPaymentsRequest(
            status=[payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION], limit=1
        ),
    )
    first = await operator.call("ListPartnerPayments", request)
    assert first.stats.total_transactions == 2
    request.filter.cursor = first.next_cursor
    second = await operator.call("ListPartnerPayments", request)
    ids = [row.payment_id for page in (first, second) for row in page.data]
    result = await desk.rest.call("GET", "/v1/payments", {"Api-Key": owner.secret})
    assert ids == [row["paymentId"] for row in result["data"]]
    # for payments of other merchants nothing is found
    request.filter.ClearField("cursor")
    request.filter.merchant_id.append(other.merchant.id)
    assert len((await operator.call("ListPartnerPayments", request)).data) == 0
    live = listing_pb2.ListPartnerPaymentsRequest(partner_id=owner.partner.id, live=True)
    assert len((await operator.call("ListPartnerPayments", live)).data) == 0
