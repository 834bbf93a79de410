"""Archived payments over every way in: they answer by id, and change only once restored."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import archive_pb2, trace_pb2

from tests.support import operator
from tests.support.api import ApiCallError
from tests.support.receipts import decode_claims, get_receipt
from tests.support.service_harness import ORDER, open_service
from tests.support.until import advance, wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

DAY_S = 86_400


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("archived")
    settings = {"archive": {"folder": home / "archive", "payment_days": 30}}
    async with open_service(home / "home", **settings) as desk:
        yield desk


async def pay(desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    # no reorganization can undo it any more
    await desk.chain.mine(200)
    await wait_until(
        lambda: not desk.select("SELECT * FROM watched_tx"),
        meanwhile=lambda: advance(desk.clock, 2),
    )
    return offer.payment_id


async def archive(desk, *payment_ids: str) -> None:
    """Let months pass, until payments are in the archive."""
    desk.clock.advance(62 * DAY_S)

    def are_archived() -> bool:
        return all(
            not desk.select(f"SELECT id FROM payment WHERE id = '{payment_id}'")
            for payment_id in payment_ids
        )

    await wait_until(are_archived, meanwhile=lambda: advance(desk.clock, 600))


async def read_all(desk, payment_id: str) -> dict:
    """Return what every call answers for a payment."""
    path = f"/v1/payments/{payment_id}"
    trace = await operator.ask(
        desk, "TracePayment", trace_pb2.TracePaymentRequest(payment_id=payment_id)
    )
    claims = decode_claims(await get_receipt(desk, payment_id))
    claims.pop("iat")
    detail = await desk.rest.call("GET", path, desk.rest.merchant)
    # an archive has no names of wallets
    detail.pop("buyer")
    return {
        "status": await desk.rest.status(payment_id),
        "detail": detail,
        "events": await desk.rest.call("GET", f"{path}/history", desk.rest.merchant),
        "receipt": claims,
        "trace": [event.event.cause for event in trace.events],
        "page": (await desk.ask("GET", f"/{payment_id}")).status,
        "receipt_page": (await desk.ask("GET", f"/{payment_id}/receipt")).status,
        "watched": [state async for state in desk.rest.watch(payment_id)],
    }


async def test_archived_payments_answer_as_before_and_refunds_after_a_restore(desk):
    payment_id = await pay(desk)
    cancelled = (await desk.rest.call("POST", "/v1/payments", desk.rest.merchant, {**ORDER}))[
        "paymentId"
    ]
    await desk.rest.call("POST", f"/v1/payments/{cancelled}/cancel", desk.rest.merchant, {})
    before = await read_all(desk, payment_id)
    await archive(desk, payment_id, cancelled)
    assert await read_all(desk, payment_id) == before
    assert (await desk.rest.status(cancelled))["status"] == "cancelled"

    listed = await desk.rest.call("GET", "/v1/payments", desk.rest.merchant)
    assert payment_id not in str(listed)
    # for other merchants it is as unknown as one that never existed
    stranger = await desk.tenant()
    answer = await desk.ask("GET", f"/v1/payments/{payment_id}", stranger.headers)
    assert answer.refusal == (404, "payment_not_found")

    for method, path, body in (
        ("POST", f"/v1/payments/{payment_id}/cancel", {}),
        ("POST", f"/v1/payments/{payment_id}/notes", {"text": "late"}),
        ("POST", "/v1/refunds", {"paymentId": payment_id}),
    ):
        answer = await desk.ask(method, path, desk.rest.merchant, body)
        assert answer.refusal == (400, "invalid_state"), (path, answer.text)

    files = (
        await operator.ask(desk, "ListArchiveFiles", archive_pb2.ListArchiveFilesRequest())
    ).files
    assert sum(file.payments for file in files) == 2
    restore = archive_pb2.RestorePaymentRequest(payment_id=payment_id)
    await operator.ask(desk, "RestorePayment", restore)
    assert await read_all(desk, payment_id) == before
    with pytest.raises(ApiCallError) as refused:
        await operator.ask(desk, "RestorePayment", restore)
    assert refused.value.code == "payment_not_found"
    await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, {"paymentId": payment_id})
    refund = await desk.wait_refunded(payment_id)
    assert refund["status"] == "succeeded"
