"""Examples of bodies, from the answers that the wire tests compare with."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

_ASKED = re.compile(r"(GET|POST|PUT|PATCH|DELETE) ([^ ?]+)(?:\?\S*)?(?: (\{.*\}))?")
_PLACEHOLDER = re.compile(r"<[a-z][a-z, _]*(?:[0-9]+)?>")
_NUMBERED = re.compile(r"<(merchant|settlement|crypto|fiat|refund|payment) ([0-9]{1,2})>")
_PAYMENT = "pay_01KEY3XQ7T9ZB5WDNM4GSHRA2C6VJE"
# by which key the receipt of the examples is signed
_KEY_ID = "9Vw3kTq0ZsYhB7LxJc2RnUe5Fa8GdMp1Ko4iXt6Hv_s"


def _receipt() -> str:
    """A receipt in its form (JWS), with the first of what it says."""
    parts = (
        {"alg": "Ed25519", "kid": _KEY_ID, "typ": "florin-receipt+jwt"},
        {"version": 1, "iss": "https://pay.florin.example", "sub": f"{_PAYMENT}8F"},
    )
    texts = [json.dumps(one, separators=(",", ":")).encode() for one in parts]
    # what signs it is made up
    signed = [*texts, bytes(range(64))]
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in signed)


# rows of lists are named after what became of them
_ROWS = (
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
    **{f"<{name}>": f"{_PAYMENT}{number:02}" for number, name in enumerate(_ROWS)},
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
    "<receipt>": _receipt(),
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
# files that hold one answer each, and what it answers
_ONE = {
    "list_legacy": "GET /v1/merchants/<merchant id>/payments",
    "list_merchant": "GET /v1/merchants/payments",
    "list_partner": "GET /v1/payments",
    "created": 'POST /v1/payments {"amount": {"unit": "iso4217/USD", "value": "1250"}, '
    '"referenceId": "order-1001"}',
}


class Exchange(NamedTuple):
    """One request and its answer; `request` is None if there was no body."""

    name: str
    method: str
    path: str
    request: Any
    status: int
    body: Any


def exchanges(folder: Path, profile: str = "spec") -> Iterator[Exchange]:
    """What the files of a folder tell of one profile, or of both; named after their files.

    A file holds one answer, answers by request, or a list of both.
    """
    for file in sorted(folder.glob("*.json")):
        name, _, told_of = file.stem.partition(".")
        if told_of not in {"", profile}:
            continue
        told = json.loads(_filled(file.read_text()))
        if isinstance(told, dict) and "body" in told:
            told = {_ONE[name]: told}
        if isinstance(told, dict):
            told = [{"asked": asked, **answer} for asked, answer in told.items()]
        for one in told:
            found = _ASKED.fullmatch(one.get("asked") or one["call"])
            if found is not None and "body" in one:
                sent = json.loads(found[3]) if found[3] else one.get("sent")
                yield Exchange(name, found[1], found[2], sent, one["status"], one["body"])


def examples_of(paths: Mapping[str, Mapping[str, Json]], folder: Path) -> dict[str, Json]:
    """Examples by operation id, then `request` or the status of the answer, then name.

    What has a placeholder without a stand-in, or is no JSON object, is left out.
    """
    found: dict[str, Json] = {}
    for exchange in exchanges(folder):
        operation = operation_of(paths, exchange)
        if operation is None:
            continue
        own = found.setdefault(operation["operationId"], {})
        if exchange.status < 300:
            _keep(own.setdefault("request", {}), exchange.name, exchange.request)
        _keep(own.setdefault(str(exchange.status), {}), exchange.name, exchange.body)
    return found


def _keep(kept: Json, name: str, body: Any) -> None:
    """Keep one body of each state, if it says what none of the others says."""
    usable = isinstance(body, dict) and not _PLACEHOLDER.search(json.dumps(body))
    if usable and name not in kept and body not in kept.values():
        kept[name] = body


def operation_of(paths: Mapping[str, Mapping[str, Json]], exchange: Exchange) -> Json | None:
    """The operation that was asked; None if there is none."""
    asked = exchange.path.split("/")
    fitting: list[tuple[int, Json]] = []
    for path, operations in paths.items():
        segments = path.split("/")
        operation = operations.get(exchange.method.lower())
        if operation is None or len(segments) != len(asked):
            continue
        variable = [segment.startswith("{") for segment in segments]
        if all(v or s == a for v, s, a in zip(variable, segments, asked, strict=True)):
            fitting.append((sum(variable), operation))
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _filled(text: str) -> str:
    for placeholder, value in _STAND_INS.items():
        text = text.replace(placeholder, value)
    return _NUMBERED.sub(lambda found: f"{_PREFIX[found[1]]}{int(found[2]):02}", text)
