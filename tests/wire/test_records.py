"""The audit log and notes over the API: who sees which, and what is never in them."""

from __future__ import annotations

import pytest
from florin.v1 import audit_pb2, note_pb2, partner_pb2
from florin_server.api.server.metadata import CHANNEL_KEY

from tests.support.api import ApiCallError
from tests.support.operator import ask
from tests.support.service_harness import ORDER, PartnerTenant, ServiceHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOG = "/v1/audit-entries"
DESTINATION = {"asset": "eip155:1/slip44:60", "destination": "eip155:1:0x" + "11" * 20}


async def read_log(desk: ServiceHarness, tenant: PartnerTenant, query: str = "") -> list[dict]:
    answer = await desk.ask("GET", f"{LOG}{query}", tenant.headers)
    assert answer.status == 200, answer.text
    return answer.body["entries"]


async def read_all(desk: ServiceHarness, **filters) -> list[audit_pb2.AuditEntry]:
    request = audit_pb2.ListAuditEntriesRequest(**filters)
    return list((await ask(desk, "ListAuditEntries", request)).entries)


async def create_payment(desk: ServiceHarness, tenant: PartnerTenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return created.body["paymentId"]


async def test_a_change_is_in_the_log_of_its_partner_and_mode_only(desk):
    tenant, stranger = await desk.tenant(), await desk.tenant()
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    headers = {**tenant.headers, "Idempotency-Key": "add"}
    added = await desk.ask("POST", path, headers, {"settlements": [DESTINATION]})
    assert added.status == 201, added.text
    (entry,) = await read_log(desk, tenant, f"?objectId={tenant.merchant.id}")
    assert (entry["action"], entry["actor"], entry["keyId"], entry["channel"]) == (
        "merchant.destination_added",
        "key",
        tenant.key_id,
        "api",
    )
    assert entry["peer"] == "127.0.0.1"
    assert entry["requestId"] == added.headers["Request-Id"]
    (change,) = entry["changes"]
    assert (change["before"], change["after"]) == ("", DESTINATION["destination"])
    _, live_secret = await desk.key(tenant.partner.id, live=True)
    for secret in (stranger.secret, live_secret):
        answer = await desk.ask("GET", f"{LOG}?objectId={tenant.merchant.id}", {"Api-Key": secret})
        assert answer.body["entries"] == []
    # the operator sees it too
    assert [of.id for of in await read_all(desk, object_id=tenant.merchant.id)] == [entry["id"]]


async def test_a_cursor_of_another_partner_shows_nothing_of_it(desk):
    tenant, stranger = await desk.tenant(), await desk.tenant()
    for owner in (tenant, stranger):
        for _ in range(2):
            payment_id = await create_payment(desk, owner)
            await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", owner.headers)
    page = await desk.ask("GET", f"{LOG}?limit=1", tenant.headers)
    # entries of one moment have no order of their own
    assert len(page.body["entries"]) == 1
    cursor = page.body["nextCursor"]
    second = await desk.ask("GET", f"{LOG}?limit=1&cursor={cursor}", tenant.headers)
    assert second.body["entries"][0]["id"] != page.body["entries"][0]["id"]
    stolen = await desk.ask("GET", f"{LOG}?limit=1&cursor={cursor}", stranger.headers)
    assert (stolen.status, stolen.body["code"]) == (400, "invalid_params")


async def test_repeated_and_refused_requests_are_recorded_once(desk):
    tenant = await desk.tenant()
    payment_id = await create_payment(desk, tenant)
    path = f"/v1/payments/{payment_id}/cancel"
    headers = {**tenant.headers, "Idempotency-Key": "cancel-once"}
    for _ in range(2):
        assert (await desk.ask("POST", path, headers)).status == 200
    # it has ended: a cancellation without the key changes nothing either
    await desk.ask("POST", path, tenant.headers)
    assert len(await read_log(desk, tenant, f"?objectId={payment_id}")) == 1
    refused = await desk.ask("POST", "/v1/refunds", tenant.headers, {"paymentId": payment_id})
    assert refused.status >= 400
    assert len(await read_log(desk, tenant, f"?objectId={payment_id}")) == 1


async def test_secrets_are_never_in_the_log(desk):
    tenant = await desk.tenant()
    body = {"url": "https://user:hunter2@shop.example/hooks?token=s3cr3t-token"}
    created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    if created.status == 400:
        body = {"url": "https://shop.example/hooks?token=s3cr3t-token"}
        created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    assert created.status == 201, created.text
    endpoint_id, secret = created.body["endpoint"]["id"], created.body["secret"]
    rotated = await desk.ask(
        "POST", f"/v1/webhook-endpoints/{endpoint_id}/rotate", tenant.headers, {}
    )
    moved = {"url": "https://shop.example/other?token=n3w-t0ken"}
    await desk.ask("PATCH", f"/v1/webhook-endpoints/{endpoint_id}", tenant.headers, moved)
    text = (await desk.ask("GET", LOG, tenant.headers)).text
    assert "webhook.secret_rotated" in text
    assert "webhook.changed" in text
    for word in (secret, rotated.body["secret"], "s3cr3t", "n3w-t0ken", "hunter2", tenant.secret):
        assert word not in text


async def test_merchants_do_not_see_where_the_operator_works(desk):
    tenant = await desk.tenant()
    key_id, _ = await desk.key(tenant.partner.id)
    await ask(desk, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=key_id))
    await ask(desk, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=key_id))
    own = await read_log(desk, tenant, f"?objectId={key_id}&action=key.revoked")
    # the second time changed nothing
    assert [(entry["actor"], entry["peer"]) for entry in own] == [("operator", "")]
    (entry,) = await read_all(desk, object_id=key_id, action="key.revoked")
    assert (entry.peer, entry.channel) == ("127.0.0.1", "api")


async def test_callers_cannot_claim_another_channel(desk):
    tenant = await desk.tenant()
    payment_id = await create_payment(desk, tenant)
    headers = {**tenant.headers, CHANNEL_KEY: "console"}
    assert (await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", headers)).status == 200
    (entry,) = await read_log(desk, tenant, f"?objectId={payment_id}")
    assert entry["channel"] == "api"


async def test_last_use_of_a_key_is_listed(desk):
    tenant = await desk.tenant()
    unused, _ = await desk.key(tenant.partner.id)
    await desk.ask("GET", LOG, tenant.headers)
    request = partner_pb2.ListApiKeysRequest(partner_id=tenant.partner.id)
    listed = {key.key_id: key for key in (await ask(desk, "ListApiKeys", request)).keys}
    assert listed[tenant.key_id].last_used_at.seconds == desk.now
    assert not listed[unused].HasField("last_used_at")
    # a key that is refused is not used
    # a random secret can end with either digit
    wrong = tenant.secret[:-1] + ("1" if tenant.secret.endswith("0") else "0")
    refused = await desk.ask("GET", LOG, {"Api-Key": wrong})
    assert refused.status == 401


async def test_each_side_deletes_its_own_notes_and_reads_all(desk):
    tenant, stranger = await desk.tenant(), await desk.tenant()
    payment_id = await create_payment(desk, tenant)
    path = f"/v1/payments/{payment_id}/notes"
    own = await desk.ask("POST", path, tenant.headers, {"text": " called\r\nat noon "})
    assert (own.status, own.body["text"], own.body["keyId"]) == (
        201,
        "called\nat noon",
        tenant.key_id,
    )
    request = note_pb2.CreatePaymentNoteRequest(payment_id=payment_id, text="checked")
    desk.clock.advance(1)
    theirs = await ask(desk, "CreatePaymentNote", request)
    listed = await desk.ask("GET", path, tenant.headers)
    assert [note["author"] for note in listed.body["notes"]] == ["merchant", "operator"]
    foreign = await desk.ask("PATCH", f"{path}/{theirs.id}", tenant.headers, {"deleted": True})
    assert (foreign.status, foreign.body["code"]) == (404, "invalid_params")
    request = note_pb2.UpdatePaymentNoteRequest(
        payment_id=payment_id, id=own.body["id"], deleted=True
    )
    with pytest.raises(ApiCallError):
        await ask(desk, "UpdatePaymentNote", request)
    # another partner's payment does not lead to the note
    other = f"/v1/payments/{await create_payment(desk, stranger)}/notes/{own.body['id']}"
    answer = await desk.ask("PATCH", other, stranger.headers, {"deleted": True})
    assert answer.status == 404
    note = f"{path}/{own.body['id']}"
    assert (await desk.ask("PATCH", note, tenant.headers, {})).status == 400
    desk.clock.advance(1)
    assert (await desk.ask("PATCH", note, tenant.headers, {"deleted": True})).body["deletedAt"]
    desk.clock.advance(1)
    assert len((await desk.ask("GET", path, tenant.headers)).body["notes"]) == 1
    assert (await desk.ask("PATCH", note, tenant.headers, {"deleted": False})).status == 200
    assert len((await desk.ask("GET", path, tenant.headers)).body["notes"]) == 2
    actions = [entry["action"] for entry in await read_log(desk, tenant, f"?objectId={payment_id}")]
    assert actions == [
        "payment.note_restored",
        "payment.note_deleted",
        "payment.note_added",
        "payment.note_added",
    ]
    log = (await desk.ask("GET", f"{LOG}?objectId={payment_id}", tenant.headers)).text
    assert "noon" not in log


async def test_a_payment_has_at_most_fifty_notes_of_two_thousand_characters(desk):
    tenant = await desk.tenant()
    path = f"/v1/payments/{await create_payment(desk, tenant)}/notes"
    assert (await desk.ask("POST", path, tenant.headers, {"text": "x" * 2001})).status == 400
    assert (await desk.ask("POST", path, tenant.headers, {"text": "a\u202eb"})).status == 400
    for _ in range(50):
        assert (await desk.ask("POST", path, tenant.headers, {"text": "x" * 2000})).status == 201
    full = await desk.ask("POST", path, tenant.headers, {"text": "one too many"})
    assert full.body["details"]["reason"] == "too_many_notes"
