"""Every RPC and every route x every credential and every version that a caller may send.

The calls come from the descriptors, and the expected answers from the tables below, which restate
the wire contract row by row. A call's access rule decides which rows apply to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import access_pb2
from florin_server.domain.versions import NEWEST_STABLE_VERSION

from tests.support.calls import PASS, VALID_CALLS, CallRequest, PublicCall, list_public_calls
from tests.support.service_harness import DEPLOYED, SPEC, PartnerTenant, ServiceHarness

CALLS = list(list_public_calls())
PREVIEW = "2026-02-19.preview"
FAMILIES = {
    access_pb2.CALLER_FAMILY_GATEWAY: "G",
    access_pb2.CALLER_FAMILY_PAYMENTS: "P",
    access_pb2.CALLER_FAMILY_ACCOUNT: "A",
    access_pb2.CALLER_FAMILY_SANDBOX: "X",
}

# admitted, but the resource is another tenant's or another mode's
FOREIGN = (-1, "foreign")
# admitted, unless the call needs a merchant that may take payments
SUSPENDED = (-2, "forbidden if the merchant must be active")
DELETED = (-3, "unknown if the merchant must be active")
CONFLICT = (400, "conflicting_auth_headers")
NOTHING = (401, "missing_auth_headers")
NO_KEY = (401, "missing_api_key")
NO_APP = (401, "missing_app_id")
NO_CLIENT = (401, "missing_client_id")
BAD_APP = (401, "invalid_app_id")
APP_HERE = (401, "missing_merchant_api_key")
BAD_KEY = (401, "invalid_api_key")
FORBIDDEN = (403, "forbidden")
LIVE_KEY = (403, "not_sandbox_api_key")
NO_MERCHANT = (401, "missing_merchant_id")
BAD_MERCHANT = (404, "merchant_not_found")

# headers, then the answers of wallet calls (G), payment (P), account (A) and sandbox calls (X)
KEY, MINE = {"Api-Key": "<key>"}, {"Merchant-Id": "<merchant>"}
ROWS: list[tuple[dict[str, str], Any, Any, Any, Any]] = [
    ({**KEY, "App-Id": "<app>"}, CONFLICT, CONFLICT, CONFLICT, CONFLICT),
    ({"Api-Key": "x", "App-Id": "x", "Client-Id": "c"}, CONFLICT, CONFLICT, CONFLICT, CONFLICT),
    ({}, NOTHING, NOTHING, NOTHING, NOTHING),
    ({"Api-Key": "", "App-Id": "", "Client-Id": ""}, NOTHING, NOTHING, NOTHING, NOTHING),
    (MINE, NOTHING, NO_KEY, NO_KEY, NO_KEY),
    ({"Client-Id": "c"}, NO_APP, NO_KEY, NO_KEY, NO_KEY),
    ({"Client-Id": "c", **MINE}, NO_APP, NO_KEY, NO_KEY, NO_KEY),
    ({"App-Id": "<app>"}, NO_CLIENT, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "unknown"}, NO_CLIENT, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "<app>", "Client-Id": ""}, NO_CLIENT, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "unknown", "Client-Id": "c"}, BAD_APP, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "<revoked app>", "Client-Id": "c"}, BAD_APP, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "<app>", "Client-Id": "c"}, PASS, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "<app>", "Client-Id": "c", **MINE}, PASS, APP_HERE, APP_HERE, APP_HERE),
    ({"App-Id": "<live app>", "Client-Id": "c"}, FOREIGN, APP_HERE, APP_HERE, APP_HERE),
    ({"Api-Key": "nonsense", **MINE}, BAD_KEY, BAD_KEY, BAD_KEY, BAD_KEY),
    ({"Api-Key": "<unknown key>", **MINE}, BAD_KEY, BAD_KEY, BAD_KEY, BAD_KEY),
    ({"Api-Key": "<mistyped key>", **MINE}, BAD_KEY, BAD_KEY, BAD_KEY, BAD_KEY),
    ({"Api-Key": "<revoked key>", **MINE}, BAD_KEY, BAD_KEY, BAD_KEY, BAD_KEY),
    ({"Api-Key": "<revoked wallet key>"}, BAD_KEY, BAD_KEY, BAD_KEY, BAD_KEY),
    ({"Api-Key": "<wallet key>"}, PASS, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    ({"Api-Key": "<wallet key>", **MINE}, PASS, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    ({"Api-Key": "<live wallet key>", **MINE}, FOREIGN, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    ({"Api-Key": "<key without its scope>", **MINE}, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    ({"Api-Key": "<key with its scope only>", **MINE}, PASS, PASS, PASS, PASS),
    (
        {"Api-Key": "<suspended key>", "Merchant-Id": "<suspended partner's merchant>"},
        FORBIDDEN,
        FORBIDDEN,
        FORBIDDEN,
        FORBIDDEN,
    ),
    (
        {"Api-Key": "<live key>", "Merchant-Id": "<live merchant>"},
        FOREIGN,
        FOREIGN,
        FOREIGN,
        LIVE_KEY,
    ),
    ({"Api-Key": "<live key>", **MINE}, FOREIGN, BAD_MERCHANT, FOREIGN, LIVE_KEY),
    (KEY, PASS, NO_MERCHANT, PASS, PASS),
    ({**KEY, "Merchant-Id": ""}, PASS, NO_MERCHANT, PASS, PASS),
    ({**KEY, **MINE}, PASS, PASS, PASS, PASS),
    ({**KEY, **MINE, "Client-Id": "c"}, PASS, PASS, PASS, PASS),
    ({**KEY, **MINE, "App-Id": ""}, PASS, PASS, PASS, PASS),
    ({**KEY, "Merchant-Id": "unknown"}, PASS, BAD_MERCHANT, PASS, PASS),
    ({**KEY, "Merchant-Id": "<other merchant>"}, PASS, BAD_MERCHANT, PASS, PASS),
    ({**KEY, "Merchant-Id": "<live merchant>"}, PASS, BAD_MERCHANT, PASS, PASS),
    ({**KEY, "Merchant-Id": "<second merchant>"}, PASS, FOREIGN, PASS, PASS),
    ({**KEY, "Merchant-Id": "<suspended merchant>"}, PASS, SUSPENDED, PASS, PASS),
    ({**KEY, "Merchant-Id": "<inactive merchant>"}, PASS, SUSPENDED, PASS, PASS),
    ({**KEY, "Merchant-Id": "<deleted merchant>"}, PASS, DELETED, PASS, PASS),
    (
        {"Api-Key": "<other key>", "Merchant-Id": "<other merchant>"},
        PASS,
        FOREIGN,
        FOREIGN,
        FOREIGN,
    ),
]

MALFORMED, UNKNOWN = (400, "invalid_api_version"), (400, "unknown_api_version")
DOWNGRADE = (400, "api_version_downgrade")
# version headers, then the answers to accounts pinned to the stable version, to the preview
VERSIONS: list[tuple[dict[str, str], Any, Any]] = [
    ({}, PASS, PASS),
    ({"api-version": "bad"}, PASS, PASS),
    *(
        ({header: version}, stable, preview)
        for header in ("Pay-Version", "WCP-Version")
        for version, stable, preview in (
            (NEWEST_STABLE_VERSION, PASS, DOWNGRADE),
            (PREVIEW, PASS, PASS),
            ("", MALFORMED, MALFORMED),
            ("latest", MALFORMED, MALFORMED),
            ("2026-2-18", MALFORMED, MALFORMED),
            ("2026-02-30", MALFORMED, MALFORMED),
            ("2026-02-18.beta", MALFORMED, MALFORMED),
            ("2026-02-18.preview.preview", MALFORMED, MALFORMED),
            ("2026-02-18,2026-02-18", MALFORMED, MALFORMED),
            ("2026-02-17", UNKNOWN, UNKNOWN),
            ("2026-02-19", UNKNOWN, UNKNOWN),
            ("2026-02-18.preview", UNKNOWN, UNKNOWN),
            ("9999-12-31", UNKNOWN, UNKNOWN),
        )
    ),
    ({"Pay-Version": NEWEST_STABLE_VERSION, "WCP-Version": "bad"}, PASS, DOWNGRADE),
    ({"Pay-Version": PREVIEW, "WCP-Version": NEWEST_STABLE_VERSION}, PASS, PASS),
    ({"Pay-Version": "", "WCP-Version": NEWEST_STABLE_VERSION}, MALFORMED, MALFORMED),
    ({"Pay-Version": "2026-02-17", "WCP-Version": PREVIEW}, UNKNOWN, UNKNOWN),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Cast:
    """The callers of these tests."""

    desk: ServiceHarness
    tenant: PartnerTenant
    preview: PartnerTenant
    preview_app: dict[str, str]
    names: dict[str, str]
    scoped: dict[str, str]
    lacking: dict[str, str]

    def headers(self, sent: dict[str, str], scope: str) -> dict[str, str]:
        names = {
            **self.names,
            "<key without its scope>": self.lacking[scope],
            "<key with its scope only>": self.scoped[scope],
        }
        return {name: names.get(value, value) for name, value in sent.items()}


SCOPES = ("read", "create", "refund", "settle", "manage")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cast(desk) -> Cast:
    tenant, other, live = await desk.tenant(), await desk.tenant(), await desk.tenant(live=True)
    suspended = await desk.tenant()
    await suspended.change_partner(status="suspended")
    revoked_id, revoked = await desk.key(tenant.partner.id)
    await desk.revoke(revoked_id)
    revoked_wallet_id, revoked_wallet = await desk.key(None)
    await desk.revoke(revoked_wallet_id)
    partner = tenant.partner.id
    names = {
        "<key>": tenant.secret,
        "<merchant>": tenant.merchant.id,
        "<second merchant>": (await desk.merchant(tenant)).id,
        "<suspended merchant>": (await desk.merchant(tenant, status="suspended")).id,
        "<inactive merchant>": (await desk.merchant(tenant, status="inactive")).id,
        "<deleted merchant>": (await desk.merchant(tenant, deleted_at_us=1)).id,
        "<app>": desk.env["FLORIN_APP_ID"],
        "<revoked app>": (await desk.wallet_app(revoked=True))["App-Id"],
        "<live app>": (await desk.wallet_app(live=True))["App-Id"],
        "<wallet key>": (await desk.key(None))[1],
        "<live wallet key>": (await desk.key(None, live=True))[1],
        "<revoked wallet key>": revoked_wallet,
        "<revoked key>": revoked,
        "<unknown key>": desk.unstored_key(),
        "<mistyped key>": tenant.secret[:-1] + ("0" if tenant.secret[-1] != "0" else "1"),
        "<suspended key>": suspended.secret,
        "<suspended partner's merchant>": suspended.merchant.id,
        "<other merchant>": other.merchant.id,
        "<other key>": other.secret,
        "<live key>": live.secret,
        "<live merchant>": live.merchant.id,
    }
    preview = await desk.tenant(pin=PREVIEW)
    return Cast(
        desk,
        tenant,
        preview,
        await desk.wallet_app(pin=PREVIEW),
        names,
        {text: (await desk.key(partner, scopes=(text,)))[1] for text in SCOPES},
        {
            text: (await desk.key(partner, scopes=tuple(s for s in SCOPES if s != text)))[1]
            for text in SCOPES
        },
    )


class Requests:
    """Requests of one call that succeed, made anew if they succeed only once."""

    def __init__(self, cast: Cast, call: PublicCall, tenant: PartnerTenant) -> None:
        self._cast, self._call, self._tenant = cast, call, tenant
        self._known: CallRequest | None = None

    async def next(self, *, passes: bool) -> CallRequest:
        if self._known is None or (passes and self._call.good.fresh):
            self._known = await self._call.good.make(self._cast.desk, self._tenant)
        return self._known


def _scope(call: PublicCall) -> str:
    return access_pb2.KeyScope.Name(call.rule.scope).removeprefix("KEY_SCOPE_").lower()


def _expected(call: PublicCall, row: Any, *, deployed: bool) -> tuple[int, str]:
    """Return the expected answer of a table row for one call."""
    outcome: tuple[int, str] = row[1 + "GPAX".index(FAMILIES[call.rule.family])]
    if outcome == NOTHING and deployed and call.rule.family != access_pb2.CALLER_FAMILY_GATEWAY:
        return NO_KEY
    if outcome in {SUSPENDED, DELETED}:
        if call.rule.active_merchant:
            return FORBIDDEN if outcome == SUSPENDED else BAD_MERCHANT
        outcome = FOREIGN
    return call.good.foreign(deployed=deployed) if outcome == FOREIGN else outcome


def _fresh_key(desk: ServiceHarness) -> dict[str, str]:
    """Return an unused key for calls that require one."""
    return {"Idempotency-Key": desk.service.app.randbytes(8).hex()}


async def test_every_rpc_has_a_good_request():
    assert {call.name for call in CALLS} == set(VALID_CALLS)


@pytest.mark.parametrize("profile", [{}, SPEC, DEPLOYED], ids=["no header", "spec", "deployed"])
@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_every_credential(desk, cast, call, profile):
    requests, wrong = Requests(cast, call, cast.tenant), []
    for row in ROWS:
        expected = _expected(call, row, deployed=profile is DEPLOYED)
        request = await requests.next(passes=expected == PASS)
        headers = {**cast.headers(row[0], _scope(call)), **profile, **_fresh_key(desk)}
        result = await call.outcome(desk, request, headers)
        if result != expected:
            wrong.append((row[0], result, expected))
    assert wrong == []


@pytest.mark.parametrize("pin", [NEWEST_STABLE_VERSION, PREVIEW])
@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_every_version(desk, cast, call, pin):
    tenant = cast.tenant if pin == NEWEST_STABLE_VERSION else cast.preview
    requests, wrong = Requests(cast, call, tenant), []
    for sent, stable, preview in VERSIONS:
        expected = stable if pin == NEWEST_STABLE_VERSION else preview
        request = await requests.next(passes=expected == PASS)
        credential = tenant.headers
        if call.rule.family == access_pb2.CALLER_FAMILY_GATEWAY:
            credential = desk.rest.wallet if pin == NEWEST_STABLE_VERSION else cast.preview_app
        result = await call.outcome(desk, request, {**credential, **sent, **_fresh_key(desk)})
        if result != expected:
            wrong.append((sent, result, expected))
    assert wrong == []
