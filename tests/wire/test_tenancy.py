"""Other tenants' objects are as unknown as objects that never existed: in every byte and step.

Times are compared by their causes: the statements that the store runs for a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import pytest
import pytest_asyncio
from florin.v1 import access_pb2
from florin_server.base.notifier import Notifier
from florin_server.base.topics import Topic
from florin_server.db.engine.sqlite import SqliteConnection
from florin_server.db.engine.store import Store

from tests.support.calls import CallRequest, PublicCall, list_public_calls
from tests.support.service_harness import DEPLOYED, SPEC, PartnerTenant, ServiceHarness

UNKNOWN_IDS = {
    "payment_id": "pay_" + "0" * 27,
    "merchant_id": "mrch_" + "0" * 17,
    "id": "crypto_none",
    "claim_id": "clm_none",
}
CALLS = [call for call in list_public_calls() if call.verb and call.good.unknown]
OTHER_TENANT, OTHER_MODE = "another tenant", "another mode"
# wallets serve every tenant of their mode, and a live key in the sandbox is refused before any
# lookup
NOBODY_ELSE = {
    (access_pb2.CALLER_FAMILY_GATEWAY, OTHER_TENANT),
    (access_pb2.CALLER_FAMILY_SANDBOX, OTHER_MODE),
}
STRANGERS = [
    pytest.param(call, who, id=f"{call}-{who}")
    for call in CALLS
    for who in (OTHER_TENANT, OTHER_MODE)
    if (call.rule.family, who) not in NOBODY_ELSE
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(desk) -> dict[str, PartnerTenant]:
    return {
        "owner": await desk.tenant(),
        OTHER_TENANT: await desk.tenant(),
        OTHER_MODE: await desk.tenant(live=True),
    }


@pytest.fixture
def statements(monkeypatch, desk) -> list[str]:
    """Record the statements of calls, in order, without those of workers."""
    requests: list[str] = []
    query, scan, workers = SqliteConnection.query, Store.scan, desk.service.workers.tasks
    notify = Notifier.notify
    scanned_by: ContextVar[asyncio.Task[object] | None] = ContextVar("scanned_by")

    async def scan_in_task(self, op):
        scanned_by.set(asyncio.current_task())
        return await scan(self, op)

    def noted(self, item):
        try:
            asking = asyncio.current_task()
        except RuntimeError:  # a scan has a thread of its own
            asking = scanned_by.get()
        if asking not in workers:
            requests.append(item.statement.sqlite.sql)
        return query(self, item)

    monkeypatch.setattr(Store, "scan", scan_in_task)
    monkeypatch.setattr(SqliteConnection, "query", noted)
    # the tenants are new: after a worker's notification, credentials would be read again
    monkeypatch.setattr(
        Notifier,
        "notify",
        lambda self, topic, key="": topic is Topic.ACCOUNTS or notify(self, topic, key),
    )
    return requests


@contextmanager
def during(requests: list[str]) -> Iterator[list[str]]:
    requests.clear()
    results: list[str] = []
    yield results
    results.extend(requests)


def _make_unknown(request: CallRequest) -> CallRequest:
    """Return the request for an object that never existed."""
    body = request.body
    if isinstance(body, dict) and "paymentId" in body:
        body = {**body, "paymentId": UNKNOWN_IDS["payment_id"]}
    return CallRequest({name: UNKNOWN_IDS[name] for name in request.path}, body)


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED], ids=["spec", "deployed"])
@pytest.mark.parametrize(("call", "who"), STRANGERS)
async def test_foreign_id_gets_the_same_response_as_an_unknown_id(
    desk, tenants, statements, call, who, profile
):
    wallets = call.rule.family == access_pb2.CALLER_FAMILY_GATEWAY
    theirs = await call.good.make(desk, tenants["owner"])
    unknown = _make_unknown(theirs)
    credential = tenants[who].headers
    if wallets:
        credential = await desk.wallet_app(live=True)
    headers = {**credential, **profile, "Request-Id": "same"}
    expected = call.good.foreign(deployed=profile is DEPLOYED)
    seen = []
    for turn, request in enumerate((unknown, theirs, unknown, theirs)):
        # a new key, so that nothing is repeated; its length is the same each time
        sent = {**headers, "Idempotency-Key": f"{call.name}-{who}-{turn}"[-64:]}
        with during(statements) as requests:
            answer = await _ask(desk, call, request, sent)
        assert answer.refusal == expected
        # the second in which an answer was made is no secret
        result = sorted(item for item in answer.headers.items() if item[0] != "Date")
        seen.append((answer.text, result, requests))
    # the first pair only filled the cache about the caller
    assert seen[2] == seen[3]


async def test_no_call_is_left_out():
    assert [
        call
        for call in CALLS
        if all(call is not parameter_set.values[0] for parameter_set in STRANGERS)
    ] == []


async def _ask(
    desk: ServiceHarness, call: PublicCall, request: CallRequest, headers: dict[str, str]
):
    path = call.template
    for name, value in request.path.items():
        path = path.replace(f"{{{name}}}", value)
    return await desk.ask(call.verb, path, headers, request.body)


@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
async def test_a_settlement_of_another_merchant_of_ones_own_is_unknown_too(
    desk, tenants, statements, verb
):
    (call,) = [c for c in CALLS if c.verb == verb and c.template.endswith("/crypto/{id}")]
    owner = tenants["owner"]
    theirs = await call.good.make(desk, owner)
    mine = {**theirs.path, "merchant_id": owner.merchant.id}
    headers = {**owner.headers, "Request-Id": "same"}
    seen = []
    for settlement in (UNKNOWN_IDS["id"], theirs.path["id"]) * 2:
        request = replace(theirs, path={**mine, "id": settlement})
        with during(statements) as requests:
            answer = await _ask(desk, call, request, headers)
        assert answer.refusal == (404, "invalid_params")
        seen.append((answer.text, requests))
    assert len({text for text, _ in seen}) == 1
    # as above
    assert seen[2] == seen[3]
