"""Examples of bodies, from the answers that the wire tests compare with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

_KEY = re.compile(r"(GET|POST|PUT|PATCH|DELETE) ([^ ?]+)(?:\?\S*)?(?: (\{.*\}))?")
_PLACEHOLDER = re.compile(r"<[a-z][a-z, ]*>")
_STAND_INS = {
    "<payment id>": "pay_01KEY3XQ7T9ZB5WDNM4GSHRA2C6VJE8F",
    "<option id>": "7b1f0a52-6c1d-4e0b-9a35-2f7c8d9e4b10",
    "<merchant id>": "mrch_8sYk2Lw0QvTz4Hn6B",
    "<wallet address>": "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "<wallet address, lower case>": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "<hash>": "0x" + "5c504ed432cb51138bcf09aa5e8a410d" * 2,
    "<output>": "0x" + "9f" * 64 + "1b",
}
# files that hold one answer, and what it answers
_ASKED = {
    "created": 'POST /v1/payments {"amount": {"unit": "iso4217/USD", "value": "1250"}, '
    '"referenceId": "order-1001"}'
}


class Exchange(NamedTuple):
    """One request and its answer."""

    method: str
    path: str
    request: Any
    status: int
    body: Any


def exchanges(folder: Path) -> Iterator[tuple[str, Exchange]]:
    """What the files of a folder tell in the spec profile, each with a name for it."""
    for file in sorted(folder.glob("*.json")):
        name, _, profile = file.stem.partition(".")
        if profile in {"", "spec"}:
            told = json.loads(_filled(file.read_text()))
            if name in _ASKED:
                told = {_ASKED[name]: told}
            for key, answer in told.items():
                found = _KEY.fullmatch(key)
                if found and isinstance(answer, dict) and {"status", "body"} <= answer.keys():
                    asked = json.loads(found[3]) if found[3] else None
                    yield (
                        name,
                        Exchange(found[1], found[2], asked, answer["status"], answer["body"]),
                    )


def examples_of(paths: Mapping[str, Mapping[str, Json]], folder: Path) -> dict[str, Json]:
    """Examples by operation id, then `request` or the status of the answer, then name.

    What has a placeholder without a stand-in, or is no JSON object, is left out.
    """
    found: dict[str, Json] = {}
    for name, exchange in exchanges(folder):
        operation = _operation(paths, exchange)
        if operation is None:
            continue
        own = found.setdefault(operation["operationId"], {})
        if exchange.status < 300:
            _keep(own.setdefault("request", {}), name, exchange.request)
        _keep(own.setdefault(str(exchange.status), {}), name, exchange.body)
    return found


def _keep(kept: Json, name: str, body: Any) -> None:
    """Keep one body of each state, if it says what none of the others says."""
    usable = isinstance(body, dict) and not _PLACEHOLDER.search(json.dumps(body))
    if usable and name not in kept and body not in kept.values():
        kept[name] = body


def _operation(paths: Mapping[str, Mapping[str, Json]], exchange: Exchange) -> Json | None:
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
    return text
