"""The consoles' audit log, notes, last uses of keys, and Undo."""

from __future__ import annotations

import csv
import re
from html import unescape

import pytest
import pytest_asyncio
from florin.v1 import audit_pb2
from florin_server.domain.audit import AuditAction
from florin_server.web.console import audit_words
from florin_server.web.console.audit import build_csv
from florin_server.web.console.undo import _LIFE_US
from florin_server.web.language import get_translations

from tests.support.console import HOSTILE, ConsoleUser
from tests.support.operator import ask
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
AUDIT = "/console/audit"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0) as desk:
        yield desk


def token(desk) -> str:
    return desk.service.secrets.operator_token


async def create_payment(desk, tenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return created.body["paymentId"]


def list_actions(text: str) -> list[str]:
    """Return the actions of a page of the log."""
    table = text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [unescape(words.strip()) for words in re.findall(r'<th scope="row"[^>]*>([^<]+)', table)]


async def test_every_action_has_words_and_an_object():
    texts = get_translations("en", "console")
    assert set(audit_words.list_actions(texts)) == set(AuditAction)
    assert {action.partition(".")[0] for action in AuditAction} == set(
        audit_words.list_objects(texts)
    )
    assert audit_words.describe_action(texts, "later.action") == "later.action"


async def test_merchant_filters_its_log_and_downloads_it(desk, person):
    tenant, stranger = await desk.tenant(), await desk.tenant()
    other = await create_payment(desk, stranger)
    await desk.ask("POST", f"/v1/payments/{other}/cancel", stranger.headers)
    payment_id = await create_payment(desk, tenant)
    desk.clock.advance(1)
    await person.sign_in(tenant.secret)
    desk.clock.advance(1)
    page = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    await person.act(page, f"{page}/cancel")
    log = (await person.get(AUDIT)).text
    assert list_actions(log) == ["Cancelled payment", "Signed in", "Created API key"]
    assert other not in log
    link = re.search(rf'href="({AUDIT}\?object=[^"]+)"', (await person.get(page)).text)
    assert link is not None
    assert list_actions((await person.get(link[1])).text) == ["Cancelled payment"]
    assert list_actions((await person.get(f"{AUDIT}?action=sign_in")).text) == ["Signed in"]
    assert list_actions((await person.get(f"{AUDIT}?actor=operator")).text) == []
    assert "No entries match" in (await person.get(f"{AUDIT}?to=2020-01-01T00:00")).text
    assert (await person.get(f"{AUDIT}?from=noon")).status == 400
    file = await person.get(f"{AUDIT}/export?action=payment")
    assert file.headers["Content-Type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(file.text.splitlines())
    assert (row["action"], row["object_id"], row["channel"], row["address"]) == (
        "payment.cancelled",
        payment_id,
        "console",
        "127.0.0.1",
    )


async def test_formulas_in_the_log_are_text_in_the_file():
    entry = audit_pb2.AuditEntry(peer="=cmd()", object_id="+1", key_id="-1", request_id="@x")
    entry.changes.add(name="name", before="", after="=HYPERLINK(0)")
    iso = type("Formatter", (), {"iso": staticmethod(lambda _: "")})
    row = next(csv.DictReader(build_csv(iso, [entry]).body.decode().splitlines()))
    for name in ("address", "object_id", "key_id", "request_id"):
        assert row[name].startswith("'")


async def test_operator_sees_who_did_what_by_which_way(desk, operator):
    await operator.sign_in(token(desk))
    hidden = await operator.hidden("/console", "/console/executors/pause")
    prompt = await operator.send("/console/executors/pause", hidden)
    paused = await operator.confirm("/console/executors/pause", prompt)
    log = (await operator.get(f"{AUDIT}?object={hidden['executor']}")).text
    assert list_actions(log) == ["Paused executor"]
    assert "<small><code>console</code></small>" in log
    # one click takes it back, without another question: resuming stops nothing
    notice = await operator.get(paused.location)
    assert "The executor is paused." in notice.text
    # in the language of the reader, which can change meanwhile
    switched = await operator.get(f"{paused.location}&lang=de")
    notice = await operator.get(switched.location)
    assert "Der Executor ist angehalten." in notice.text
    notice = await operator.get(f"{paused.location}&lang=en")
    notice = await operator.get(notice.location)
    desk.clock.advance(1)
    path = "/console/executors/resume"
    undone = await operator.send(path, operator.list_hidden_fields(notice, path))
    assert undone.page == "/console"
    # the reverse of that pauses, and asks
    notice = await operator.get(undone.location)
    path = "/console/executors/pause"
    question = await operator.send(path, operator.list_hidden_fields(notice, path))
    assert "Pause this executor?" in question.text
    log = (await operator.get(f"{AUDIT}?object={hidden['executor']}")).text
    assert list_actions(log) == ["Resumed executor", "Paused executor"]


async def test_undo_is_offered_only_by_the_session_that_acted_and_for_a_while(desk, operator, bare):
    await operator.sign_in(token(desk))
    hidden = await operator.hidden("/console", "/console/executors/pause")
    prompt = await operator.send("/console/executors/pause", hidden)
    place = (await operator.confirm("/console/executors/pause", prompt)).location
    other = ConsoleUser(bare, operator.base)
    await other.sign_in(token(desk))
    forged = (
        place.replace("undo=", "undo=0"),
        place[:-1],
        "/console?undo=x",
        "/console?undo=.e30%3D",
        "/console?undo=%C3%A9.%C3%A9",
    )
    for path in forged:
        assert "is paused." not in (await operator.get(path)).text
    assert "is paused." not in (await other.get(place)).text
    assert "is paused." in (await operator.get(place)).text
    desk.clock.advance(_LIFE_US // 1_000_000)
    assert "is paused." not in (await operator.get(place)).text
    await operator.sign_in(token(desk))
    await operator.act("/console", "/console/executors/resume")


async def test_suspended_partner_is_activated_again_by_undo(desk, operator):
    tenant = await desk.tenant()
    await operator.sign_in(token(desk))
    path = "/console/accounts/partners/status"
    hidden = await operator.hidden("/console/accounts", path)
    form = {**hidden, "partner": tenant.partner.id, "status": "suspended"}
    notice = await operator.get(
        (await operator.confirm(path, await operator.send(path, form))).location
    )
    assert "The partner is suspended." in notice.text
    # the first form of the page with this path is that of the notice
    await operator.send(path, operator.list_hidden_fields(notice, path))
    assert (await desk.ask("GET", "/v1/merchants", tenant.headers)).status == 200
    log = (await operator.get(f"{AUDIT}?object={tenant.partner.id}")).text
    assert "<del><bdi>suspended</bdi></del> <ins><bdi>active</bdi></ins>" in log


async def test_notes_are_text_and_can_be_deleted_and_restored(desk, person, operator):
    tenant = await desk.tenant()
    payment_id = await create_payment(desk, tenant)
    await person.sign_in(tenant.secret)
    page = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    added = await person.fill(page, f"{page}/notes", text=f"{HOSTILE}\r\nline 2")
    assert added.location == f"{page}#notes"
    text = (await person.get(page)).text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    await operator.sign_in(token(desk))
    theirs = f"/console/payments/{payment_id}"
    assert "&lt;script&gt;alert(1)" in (await operator.get(theirs)).text
    await operator.fill(theirs, f"{theirs}/notes", text="checked by us")
    # each side has a button for its own note only
    for who, place in ((person, page), (operator, theirs)):
        assert (await who.get(place)).text.count("/notes/delete") == 1
    deleted = await person.fill(page, f"{page}/notes/delete")
    notice = await person.get(deleted.location)
    assert "The note is deleted." in notice.text
    assert "alert(1)" not in notice.text
    hidden = person.list_hidden_fields(notice, f"{page}/notes/restore")
    restored = await person.send(f"{page}/notes/restore", hidden)
    assert restored.status == 303, restored.text
    assert "alert(1)" in (await person.get(page)).text
    # a form works once
    assert (await person.send(f"{page}/notes/restore", hidden)).status == 409


async def test_failed_sign_ins_are_counted_and_done_ones_recorded(desk, person, operator):
    tenant = await desk.tenant()
    # a random secret can end with either digit
    wrong = tenant.secret[:-1] + ("1" if tenant.secret.endswith("0") else "0")
    for _ in range(3):
        assert (await person.submit_sign_in(wrong)).status == 401
    assert (await operator.submit_sign_in("wrong")).status == 401
    # what is no secret at all is not checked, and not counted
    assert (await person.submit_sign_in("")).status == 400
    await desk.service.app.sign_in_failures.flush(desk.service.app)
    request = audit_pb2.ListAuditEntriesRequest(action="sign_in.failed", limit=2)
    entries = (await ask(desk, "ListAuditEntries", request)).entries
    assert [(entry.count, entry.peer, entry.changes[0].after) for entry in entries] == [
        (1, "127.0.0.1", "operator"),
        (3, "127.0.0.1", "merchant"),
    ] or {(entry.count, entry.changes[0].after) for entry in entries} == {
        (1, "operator"),
        (3, "merchant"),
    }
    assert all(not entry.key_id and not entry.partner_id for entry in entries)
    await person.sign_in(tenant.secret)
    assert "Failed sign-in" not in list_actions((await person.get(AUDIT)).text)
    await operator.sign_in(token(desk))
    assert "Failed sign-in" in list_actions((await operator.get(AUDIT)).text)


async def test_keys_say_when_they_were_last_used(desk, person, operator):
    tenant = await desk.tenant()
    unused, _ = await desk.key(tenant.partner.id)
    await person.sign_in(tenant.secret)
    rows = (await person.get("/console/keys")).text.split("<tr>")
    (row,) = [row for row in rows if unused in row]
    assert ">never</td>" in row
    (row,) = [row for row in rows if "you are signed in with it" in row]
    assert ">now</time>" in row
    desk.clock.advance(240)
    await operator.sign_in(token(desk))
    rows = (await operator.get("/console/accounts")).text.split("<tr>")
    (row,) = [row for row in rows if f"<code>{tenant.key_id}</code>" in row]
    assert "4\u00a0min ago" in row
