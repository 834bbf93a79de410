"""A merchant's back end that was written for the deployed service and knows nothing of Florin.

It verifies the `svix-` headers in its own code and requires every member of the contract
`2026-05-18` with its type. It ignores unknown members, and acts on the type of an event.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any

from jsonschema_rs import Draft202012Validator

from tests.support.http_stub import ReceivedRequest, make_stub_response

Json = dict[str, Any]

_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
_DIGITS = {"type": "string", "pattern": r"^(0|[1-9]\d*)$"}
_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_STATUSES = ["requires_action", "processing", "succeeded", "failed", "expired", "cancelled"]


def _object_schema(**members: Json) -> Json:
    return {"type": "object", "properties": members, "required": list(members)}


def _nullable_schema(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


_AMOUNT = _object_schema(unit={"type": "string", "pattern": "^(iso4217|caip19)/.+"}, value=_DIGITS)
_FEE = _object_schema(
    kind=_TEXT,
    base_amount=_AMOUNT,
    percent=_object_schema(numerator=_DIGITS, denominator=_DIGITS),
    percent_amount=_AMOUNT,
    total_amount=_AMOUNT,
)
SECTIONS = {
    "processing": _object_schema(
        processing_at=_TIME,
        option_amount=_AMOUNT,
        fee=_nullable_schema(_FEE),
        settlement_amount=_AMOUNT,
        buyer_caip10=_TEXT_OR_NULL,
        chain_caip2={"type": "string", "pattern": "^[a-z0-9]+:.+"},
    ),
    "success": _object_schema(succeeded_at=_TIME, tx_id=_TEXT_OR_NULL),
    "failed": _object_schema(failed_at=_TIME, failure_reason=_TEXT_OR_NULL),
    "cancelled": _object_schema(cancelled_at=_TIME, cancellation_reason=_TEXT_OR_NULL),
    "expired": _object_schema(expired_at=_TIME),
    "settled": _object_schema(settled_at=_TIME, tx_id=_TEXT_OR_NULL, amount=_AMOUNT),
}
DATA = {
    "payment_id": _TEXT,
    "merchant_id": _TEXT,
    "live": {"type": "boolean"},
    "payment_state_version": {"type": "integer", "minimum": 0},
    "reference_id": _TEXT,
    "status": {"enum": _STATUSES},
    "amount": _AMOUNT,
    "created_at": _TIME,
    "expires_at": _TIME,
    **{name: _nullable_schema(schema) for name, schema in SECTIONS.items()},
}
EVENT = _object_schema(
    id={"type": "string", "pattern": "^evt_"},
    type=_TEXT,
    api_version={"const": "2026-05-18"},
    created_at=_TIME,
    data=_object_schema(**DATA),
)
_VALIDATOR = Draft202012Validator(EVENT)
# the status of each type, the required sections, and the optional ones
_TYPES: dict[str, tuple[str, set[str], set[str]]] = {
    "payment.created": ("requires_action", set(), set()),
    "payment.processing": ("processing", {"processing"}, set()),
    "payment.succeeded": ("succeeded", {"processing", "success"}, {"settled"}),
    "payment.failed": ("failed", {"failed"}, {"processing"}),
    "payment.expired": ("expired", {"expired"}, {"processing"}),
    "payment.cancelled": ("cancelled", {"cancelled"}, set()),
    "payment.settled": ("succeeded", {"processing", "success", "settled"}, set()),
}


@dataclass
class MerchantOrder:
    """The back end's view of a payment."""

    state: str = "open"
    version: int = -1
    got: int = 0


@dataclass
class MerchantBackEnd:
    """Receives deliveries; `faults` lists those that it refused, with the reason."""

    secret: str = ""
    events: list[Json] = field(default_factory=list)
    orders: dict[str, MerchantOrder] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        try:
            self.take(request)
        except Exception as error:  # noqa: BLE001  (any error is reported to the test)
            self.faults.append(f"{type(error).__name__}: {error}")
            await make_stub_response(500)(request, out)
            return
        await make_stub_response(204)(request, out)

    def take(self, request: ReceivedRequest) -> None:
        """Process one delivery."""
        event_id = request.headers["svix-id"]
        self._verify(request)
        event = json.loads(request.body)
        _VALIDATOR.validate(event)
        if event["id"] != event_id:
            raise ValueError("the header has another id")
        if event_id in self.seen:
            return
        self.seen.add(event_id)
        self.events.append(event)
        kind, data = event["type"], event["data"]
        order = self.orders.setdefault(data["payment_id"], MerchantOrder())
        if data["payment_state_version"] <= order.version:
            return
        order.version = data["payment_state_version"]
        if kind not in _TYPES:
            return
        status, always, maybe = _TYPES[kind]
        reached = {name for name in SECTIONS if data[name] is not None}
        if data["status"] != status or not always <= reached <= always | maybe:
            raise ValueError(f"{kind} is {data['status']} with {sorted(reached)}")
        if (fee := (data["processing"] or {}).get("fee")) is not None:
            _check_fee(fee, data["processing"])
        match kind:
            case "payment.created":
                order.state = "open"
            case "payment.settled":
                order.state, order.got = "settled", int(data["settled"]["amount"]["value"])
            case _:
                order.state = kind.removeprefix("payment.")

    def _verify(self, request: ReceivedRequest) -> None:
        event_id, at = request.headers["svix-id"], request.headers["svix-timestamp"]
        if abs(time.time() - int(at)) > 300:
            raise ValueError("too old")
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        content = f"{event_id}.{at}.".encode() + request.body
        code = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        if f"v1,{code}" not in request.headers["svix-signature"].split(" "):
            raise ValueError("no signature is right")


def _check_fee(fee: Json, processing: Json) -> None:
    """Compute a fee from its parts, exactly."""
    gross = int(processing["option_amount"]["value"])
    numerator, denominator = (int(fee["percent"][name]) for name in ("numerator", "denominator"))
    percent = -(-gross * numerator // denominator)
    total = int(fee["base_amount"]["value"]) + percent
    shown = tuple(int(fee[name]["value"]) for name in ("percent_amount", "total_amount"))
    if shown != (percent, total):
        raise ValueError(f"a fee of {shown} is not {(percent, total)}")
    if int(processing["settlement_amount"]["value"]) != gross - total:
        raise ValueError("the net amount is not the gross amount less the fee")
