"""One campaign: every operation of the document, with valid and invalid data.

Each answer must have a documented status, documented headers, media type and members, and be no
fault of the server's; invalid data must be refused.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from grpc_rest_gateway.openapi import LENIENT_EXTENSION
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation

from tests.fuzz.pool import DOLLAR, ETHER, THERE, Offered, Pool
from tests.support.json_shapes import list_undocumented

# streams and polls wait for changes that may never come
STREAM = "100m"
POLL_MS_MAX = 20
TIMEOUT_S = 20
VERSIONS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"Pay-Version": "2026-02-18"},
    {"Pay-Version": "2026-02-19.preview"},
    {"WCP-Version": "2026-02-18"},
    {"Pay-Version": "2026-02-18", "WCP-Version": "2026-02-19.preview"},
)
# data that fits the schema can still name no asset, no valid amount, or a wrong state
JUDGED = frozenset(
    (
        "openAddresses",
        "claimDeposit",
        "confirmDepositClaim",
        "rejectDepositClaim",
        "fetchAction",
        "confirmPayment",
        "cancelGatewayPayment",
        "createPayment",
        "createPaymentAlias",
        "cancelPayment",
        "listPayments",
        "listMerchantPayments",
        "listPaymentsLegacy",
        "listAuditEntries",
        "createPaymentNote",
        "createRefund",
        "getReceipt",
        "createMerchant",
        "listMerchants",
        "updateMerchant",
        "createCryptoSettlements",
        "updateCryptoSettlement",
        "simulatePayment",
        "createWebhookEndpoint",
        "updateWebhookEndpoint",
        "replayWebhook",
        "replayWebhooksSince",
        "takeWebhooks",
    )
)
# which objects a few requests name is decided by chance
_OF_STATES = frozenset((409, 410))
_STATEFUL = ("use_after_free", "ensure_resource_availability", "object_level_authorization")
_MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@dataclass
class Findings:
    """The findings of a campaign, and the number of its requests."""

    cases: int = 0
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def never_served(self) -> set[str]:
        """Return the operations that refused every request, and never for an object's state."""
        served = {name for name, status in self.statuses if status < 300 or status in _OF_STATES}
        return {name for name, _ in self.statuses} - served


def _accept_lenient(value: Any) -> Any:
    """Return a part of the document in which lenient members of requests can be any value."""
    if isinstance(value, list):
        return [_accept_lenient(item) for item in value]
    if not isinstance(value, dict):
        return value
    accepting = {name: _accept_lenient(inner) for name, inner in value.items()}
    if accepting.pop(LENIENT_EXTENSION, False):
        return {"anyOf": [accepting, {}]}
    return accepting


def schema_of(document: dict[str, Any]) -> Any:
    """Return the document as schemathesis reads it."""
    document = _accept_lenient(document)
    checks: dict[str, Any] = {name: {"enabled": False} for name in _STATEFUL}
    checks["negative_data_rejection"] = {"expected-statuses": ["4xx"]}
    # another tenant's, or no longer available; JUDGED decides whether 400 is allowed
    fitting = ["2xx", "401", "403", "404", "409", "410", "429", "451"]
    checks["positive_data_acceptance"] = {"expected-statuses": fitting}
    # U+0000 is excluded: no text may hold it, and no schema states that
    generation = {"allow-x00": False, "with-security-parameters": False}
    config = schemathesis.Config.from_dict({"checks": checks, "generation": generation})
    return schemathesis.openapi.from_dict(document, config=config)


def run(document: dict[str, Any], pool: Pool, *, cases: int, number: int) -> Findings:
    """Send about `cases` requests, the same ones for the same number; blocks."""
    findings = Findings()
    operations = [o.ok() for o in schema_of(document).get_all_operations()]
    each = max(1, cases // (len(operations) * len(_MODES)))
    with requests.Session() as session:
        for operation in operations:
            for mode in _MODES:
                _explore(document, operation, mode, each, number, pool, session, findings)
    return findings


def _name(operation: Any) -> str:
    return str(operation.definition.raw["operationId"])


def _explore(
    document: dict[str, Any],
    operation: Any,
    mode: GenerationMode,
    count: int,
    number: int,
    pool: Pool,
    session: requests.Session,
    findings: Findings,
) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def ask(case: Any, data: Any) -> None:
        name = _name(operation)
        headers = _adjust(case, data.draw, pool, name, mode)
        findings.cases += 1
        excluded = _excluded(name, case)
        response = case.call(pool.base, session, headers=headers, timeout=TIMEOUT_S)
        findings.statuses[name, response.status_code] += 1
        case.validate_response(response, headers=headers, excluded_checks=excluded)
        _check_members(document, operation, response)
        if response.status_code < 300 and _is_json(response):
            pool.learn(name.removesuffix("Alias"), response.json())

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask()
    except Unsatisfiable:
        # it has no part that can be invalid
        assert mode is GenerationMode.NEGATIVE
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  (each one is a finding)
        causes = getattr(error, "exceptions", (error,))
        output = "\n".join(str(cause) for cause in causes)
        findings.problems.append(f"{_name(operation)} ({mode.value}): {error}\n{output}")


def _excluded(name: str, case: Any) -> list[Any]:
    checks = [schemathesis.checks.positive_data_acceptance] if name in JUDGED else []
    # `null` is read as no body
    return (
        checks if case.body is not None else [*checks, schemathesis.checks.negative_data_rejection]
    )


def _is_json(response: Any) -> bool:
    return "application/json" in response.headers.get("content-type", [])


def _check_members(document: dict[str, Any], operation: Any, response: Any) -> None:
    if not _is_json(response):
        return
    answers = operation.definition.raw["responses"]
    answer = answers[str(response.status_code)]
    while "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    schema = answer["content"]["application/json"]["schema"]
    extra = list_undocumented(document, schema, response.json())
    assert not extra, f"undocumented members {extra} in {response.text}"


def _adjust(
    case: Any, draw: Callable[..., Any], pool: Pool, name: str, mode: GenerationMode
) -> dict[str, str]:
    """Put existing values into a case; return the headers that go with it."""
    positive = mode is GenerationMode.POSITIVE
    paths = case.path_parameters or {}
    offer = _pick(draw, pool.options)
    for key, value in _real_ids(name, paths, offer, draw, pool):
        if draw(st.integers(0, 9)) < 9:
            paths[key] = value
    if case.query and str(case.query.get("maxPollMs", "")).isdigit():
        case.query["maxPollMs"] = draw(st.integers(0, POLL_MS_MAX))
    if positive:
        if case.query and "cursor" in case.query and draw(st.booleans()):
            case.query["cursor"] = _pick(draw, pool.cursors or [case.query["cursor"]])
        _fill_body(case.body, offer, draw, pool)
    _adjust_headers(case, draw, pool, positive=positive)
    headers = dict(draw(st.sampled_from(_credentials(case, pool))))
    if name.startswith("watch"):
        headers["Grpc-Timeout"] = STREAM
    return headers


def _pick(draw: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Return one of the values, with a draw that does not depend on their number."""
    return values[draw(st.integers(0, 10**6)) % len(values)]


def _real_ids(
    name: str, paths: Any, offer: Offered, draw: Callable[..., Any], pool: Pool
) -> Iterator[tuple[str, str]]:
    if "paymentId" in paths:
        # mostly a payment whose option is known
        existing = draw(st.integers(0, 3))
        yield "paymentId", offer[0] if existing else _pick(draw, pool.payments)
    if "PaymentNote" in name and "id" in paths:
        payment, note = _pick(draw, pool.notes)
        yield "paymentId", payment
        yield "id", note
    elif "Webhook" in name:
        # as with merchants; the first one has no URL, and its waiting events are taken
        last = pool.endpoints[2:] if name.startswith("deleteWebhookEndpoint") else pool.endpoints
        taken = pool.endpoints[:1] if name.startswith("takeWebhooks") else last
        yield "id", _pick(draw, taken)
    elif "id" in paths:
        merchant, settlement = _pick(draw, pool.settlements)
        yield "merchantId", merchant
        yield "id", settlement
    elif "merchantId" in paths:
        # the first ones are not deleted, so that some merchant always exists
        merchants = pool.merchants[2:] if name.startswith("deleteMerchant") else pool.merchants
        yield "merchantId", _pick(draw, merchants)


def _adjust_headers(case: Any, draw: Callable[..., Any], pool: Pool, *, positive: bool) -> None:
    headers = case.headers
    if headers is None:
        return
    negative = case.meta is not None and case.meta.is_negative_at(ParameterLocation.HEADER)
    if not negative and "Merchant-Id" in headers and draw(st.integers(0, 19)) < 19:
        headers["Merchant-Id"] = pool.merchant_id
    if positive:
        for name in ("Pay-Version", "WCP-Version"):
            headers.pop(name, None)
        headers.update(draw(st.sampled_from(VERSIONS)))
        return
    # with both present, the second is not read
    if "Pay-Version" in headers:
        headers.pop("WCP-Version", None)
    if case.query and "afterVersion" in case.query:
        headers.pop("Last-Event-ID", None)


def _credentials(case: Any, pool: Pool) -> list[dict[str, str]]:
    expected = case.operation.definition.raw.get("security", [])
    if not expected:
        return [{}]
    results = [headers for item in expected for headers in pool.credentials[next(iter(item))]]
    if any("AppId" in item for item in expected):
        results += pool.credentials["WalletKey"]
    return results


def _fill_body(body: Any, offer: Offered, draw: Callable[..., Any], pool: Pool) -> None:
    """Replace generated values by existing ones, mostly."""
    if not isinstance(body, dict) or draw(st.integers(0, 9)) < 2:
        return
    _payment, option, outputs = offer
    real: dict[str, Any] = {
        "accounts": draw(st.lists(st.sampled_from(pool.accounts), max_size=3)),
        "optionId": option,
        "data": "",
        "results": [{"type": "walletRpc", "data": outputs}],
        "amount": {"unit": "iso4217/USD", "value": str(draw(st.integers(1, 10**6)))},
        "expiresAt": None,
        "paymentId": _pick(draw, pool.paid),
        "merchantName": "Shop",
        "merchantEmail": "owner@shop.example",
        "iconUrl": draw(st.sampled_from(["https://shop.example/icon.png", None])),
        "settlements": [{"asset": ETHER, "destination": f"eip155:1:{THERE}"}],
        "destination": DOLLAR.partition("/")[0] + f":{THERE}",
    }
    for key in body.keys() & real.keys():
        body[key] = real[key]
