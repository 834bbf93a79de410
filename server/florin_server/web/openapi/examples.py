"""Examples of bodies, from the responses that the wire tests compare."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

JsonObject = dict[str, Any]

_REQUEST_LINE = re.compile(r"(GET|POST|PUT|PATCH|DELETE) ([^ ?]+)(?:\?\S*)?(?: (\{.*\}))?")
_PLACEHOLDER = re.compile(r"<[a-z][a-z, _]*(?:[0-9]+)?>")
_NUMBERED_PLACEHOLDER = re.compile(
    r"<(merchant|settlement|crypto|fiat|refund|payment) ([0-9]{1,2})>"
)
_PAYMENT = "pay_01KEY3XQ7T9ZB5WDNM4GSHRA2C6VJE"
# the key that signs the receipt of the examples
_KEY_ID = "9Vw3kTq0ZsYhB7LxJc2RnUe5Fa8GdMp1Ko4iXt6Hv_s"


def _make_receipt() -> str:
    """Return a receipt in its form (JWS), with a shortened payload."""
    parts = (
        {"alg": "Ed25519", "kid": _KEY_ID, "typ": "florin-receipt+jwt"},
        {"version": 1, "iss": "https://pay.florin.example", "sub": f"{_PAYMENT}8F"},
    )
    texts = [json.dumps(part, separators=(",", ":")).encode() for part in parts]
    # the signature is invented
    signed = [*texts, bytes(range(64))]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in signed)


# rows of lists are named after their outcome
_PAYMENT_NAMES = (
    "requires_action",
    "processing",
    "succeeded",
    "failed",
    "expired",
    "cancelled",
    "refunded",
    "simulated",
    "in_tokens",
    "first payment",
)
_STAND_INS = {
    **{f"<{name}>": f"{_PAYMENT}{number:02}" for number, name in enumerate(_PAYMENT_NAMES)},
    "<refund id>": "rfnd_6HcX4wQf1NbTj8R5Z",
    "<cursor>": "eyJhZnRlciI6InBheV8wMUtFWTMifQ",
    "<token>": "1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9",
    "<payment id>": f"{_PAYMENT}8F",
    "<option id>": "7b1f0a52-6c1d-4e0b-9a35-2f7c8d9e4b10",
    "<merchant id>": "mrch_8sYk2Lw0QvTz4Hn6B",
    "<wallet address>": "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "<wallet address, lower case>": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "<hash>": "0x" + "5c504ed432cb51138bcf09aa5e8a410d" * 2,
    "<output>": "0x" + "9f" * 64 + "1b",
    "<receipt>": _make_receipt(),
    "<receipt key id>": _KEY_ID,
}
_PREFIX = {
    "merchant": "mrch_8sYk2Lw0QvTz4Hn",
    "settlement": "crypto_5GbR1xNc7JdPu9M",
    "crypto": "crypto_5GbR1xNc7JdPu9M",
    "fiat": "fiat_3VmZ8qLs2KtWy6D",
    "refund": "rfnd_6HcX4wQf1NbTj8R",
    "payment": _PAYMENT,
}
# files with one response each, and the request that it answers
_SINGLE_REQUESTS = {
    "list_legacy": "GET /v1/merchants/<merchant id>/payments",
    "list_merchant": "GET /v1/merchants/payments",
    "list_partner": "GET /v1/payments",
    "created": 'POST /v1/payments {"amount": {"unit": "iso4217/USD", "value": "1250"}, '
    '"referenceId": "order-1001"}',
}


PAYMENT_ID = _STAND_INS["<payment id>"]
MERCHANT_ID = _STAND_INS["<merchant id>"]
REFUND_ID = _STAND_INS["<refund id>"]
TX_HASH = _STAND_INS["<hash>"]
_ENDPOINT_ID = "whe_4TqLr8ZsXn2Vb6K1M"
_CLAIM_ID = "clm_7Yd3KsWq9XfRb2M5L"
_NOTE_ID = "note_2Wc9LrQx7VbT4Ks1N"
_DOLLARS = "eip155:31337/erc20:0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9"
_ACCOUNT = f"eip155:31337:{_STAND_INS['<wallet address>']}"
# bodies of requests that no wire test records, by operation id and name
_REQUESTS: Mapping[str, JsonObject] = {
    "advanceTestClock": {"an hour": {"seconds": 3600}},
    "createWebhookEndpoint": {
        "all payments": {"url": "https://shop.example/webhooks"},
        "some events of one merchant": {
            "url": "https://shop.example/webhooks",
            "merchantId": MERCHANT_ID,
            "events": ["payment.succeeded", "refund.succeeded"],
            "description": "orders",
        },
    },
    "updateWebhookEndpoint": {
        "resume": {"paused": False},
        "other events": {"events": {"types": ["payment.succeeded", "payment.settled"]}},
    },
    "rotateWebhookSecret": {"both secrets for a day": {"overlapSeconds": 86400}},
    "replayWebhook": {"from the first event": {"paymentId": PAYMENT_ID, "fromVersion": 0}},
    "replayWebhooksSince": {
        "one type": {"since": "2027-01-15T08:00:00Z", "events": ["payment.succeeded"]}
    },
    "createPaymentNote": {"note": {"text": "The buyer asks for an invoice."}},
    "updatePaymentNote": {"delete": {"deleted": True}, "restore": {"deleted": False}},
    "openAddresses": {
        "dollars": {"assets": [_DOLLARS]},
        "with an account for what comes back": {"assets": [_DOLLARS], "refundAccount": _ACCOUNT},
    },
    "claimDeposit": {
        "with the id of the withdrawal": {
            "asset": _DOLLARS,
            "account": _ACCOUNT,
            "message": "Withdrawal 8842115 of January 15",
        }
    },
    "takeWebhooks": {"wait for events": {"receipts": [], "maxWaitMs": 20000}},
    "createRefund": {
        "part": {
            "paymentId": PAYMENT_ID,
            "amount": {"unit": "iso4217/USD", "value": "500"},
            "reason": "a broken cup",
        }
    },
}
# operations with the bodies of another operation
_SAME_BODIES = {"createPaymentAlias": "createPayment"}


def get_path_example(name: str, path: str) -> str:
    """Return a value for a variable of a path."""
    values = {"paymentId": PAYMENT_ID, "merchantId": MERCHANT_ID}
    own_ids = {
        "webhook-endpoints": _ENDPOINT_ID,
        "notes": _NOTE_ID,
        "deposit-claims": _CLAIM_ID,
    }
    own_id = next((own_ids[part] for part in path.split("/") if part in own_ids), None)
    return values.get(name, own_id or f"{_PREFIX['settlement']}01")


class RecordedExchange(NamedTuple):
    """One request and its response; `request` is None if the request had no body."""

    name: str
    method: str
    path: str
    request: Any
    status: int
    body: Any


def read_exchanges(folder: Path, profile: str = "spec") -> Iterator[RecordedExchange]:
    """Yield the exchanges in a folder's files for one profile, or for both, named after the files.

    A file contains one response, responses by request, or a list of both.
    """
    for file in sorted(folder.glob("*.json")):
        name, _, file_profile = file.stem.partition(".")
        if file_profile not in {"", profile}:
            continue
        exchanges = json.loads(_fill_placeholders(file.read_text()))
        if isinstance(exchanges, dict) and "body" in exchanges:
            exchanges = {_SINGLE_REQUESTS[name]: exchanges}
        if isinstance(exchanges, dict):
            exchanges = [{"asked": request, **answer} for request, answer in exchanges.items()]
        for exchange in exchanges:
            match = _REQUEST_LINE.fullmatch(exchange.get("asked") or exchange["call"])
            if match is not None and "body" in exchange:
                sent = json.loads(match[3]) if match[3] else exchange.get("sent")
                yield RecordedExchange(
                    name, match[1], match[2], sent, exchange["status"], exchange["body"]
                )


def collect_examples(
    paths: Mapping[str, Mapping[str, JsonObject]], folder: Path
) -> dict[str, JsonObject]:
    """Return examples by operation id, then `request` or the status of the response, then name.

    Bodies that are no JSON object, or have a placeholder without a replacement, are omitted.
    """
    examples_by_operation: dict[str, JsonObject] = {}
    for exchange in read_exchanges(folder):
        operation = find_operation(paths, exchange)
        if operation is None:
            continue
        own = examples_by_operation.setdefault(operation["operationId"], {})
        if exchange.status < 300:
            _add_example(own.setdefault("request", {}), exchange.name, exchange.request)
        _add_example(own.setdefault(str(exchange.status), {}), exchange.name, exchange.body)
    for operation_id, bodies in _REQUESTS.items():
        own = examples_by_operation.setdefault(operation_id, {})
        own["request"] = bodies | own.get("request", {})
    for operation_id, other_id in _SAME_BODIES.items():
        examples_by_operation[operation_id] = examples_by_operation[other_id]
    return examples_by_operation


def _add_example(examples: JsonObject, name: str, body: Any) -> None:
    """Keep one body per status, if it shows something that no other body shows."""
    usable = isinstance(body, dict) and not _PLACEHOLDER.search(json.dumps(body))
    if usable and name not in examples and body not in examples.values():
        examples[name] = body


def find_operation(
    paths: Mapping[str, Mapping[str, JsonObject]], exchange: RecordedExchange
) -> JsonObject | None:
    """Return the operation that a request called; None if no operation matches."""
    requested_segments = exchange.path.split("/")
    fitting: list[tuple[int, JsonObject]] = []
    for path, operations in paths.items():
        segments = path.split("/")
        operation = operations.get(exchange.method.lower())
        if operation is None or len(segments) != len(requested_segments):
            continue
        variable = [segment.startswith("{") for segment in segments]
        if all(v or s == a for v, s, a in zip(variable, segments, requested_segments, strict=True)):
            fitting.append((sum(variable), operation))
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _fill_placeholders(text: str) -> str:
    for placeholder, value in _STAND_INS.items():
        text = text.replace(placeholder, value)
    return _NUMBERED_PLACEHOLDER.sub(lambda match: f"{_PREFIX[match[1]]}{int(match[2]):02}", text)
