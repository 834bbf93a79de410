"""Clients of the deployed API find their structure: in Florin's answers, and in its document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from florin_server.web.openapi import DOCUMENT_PATH
from florin_server.web.openapi.examples import find_operation, read_exchanges

from tests.support.deployed_api import OPERATIONS, list_differences, list_faults, parse_type
from tests.support.json_shapes import resolve_schema

GOLDEN = Path(__file__).parent / "golden"
OURS = json.loads(DOCUMENT_PATH.read_text())

# differences of Florin's answers from the deployed ones, each with the reason
PROFILE = "a document describes both profiles; the deployed one gets the structure"
WIDER = {
    "POST /v1/gateway/payment/{}/options": {
        ".options[].actions[].data.params may be no array": PROFILE,
    },
    "POST /v1/gateway/payment/{}/fetch": {".actions[].data.params may be no array": PROFILE},
    "GET /v1/merchants/{}/payments": {
        ".data[].status may be cancelled": "the sixth status, as in their other lists",
    },
}
# parameters and members that are optional here
OPTIONAL = {
    ("POST /v1/payments", "referenceId"): "a deployed pos leaves it out",
    ("POST /v1/gateway/payment/{}/fetch", "data"): "absent stands for the only build action",
}
# members that are accepted and ignored
IGNORED = {
    ("POST /v1/gateway/payment/{}/options", "refresh"): "answers are always fresh",
    ("GET /v1/payments/{}", "Idempotency-Key"): "ignored on GET",
    ("GET /v1/payments/{}/status", "Idempotency-Key"): "ignored on GET",
}
# codes that Florin does not use
QUERY = "a faulty query is invalid_params, only a body can be params_validation"
UNTOLD = {
    ("GET /v1/payments", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants/payments", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants/{}/payments", "400"): {"params_validation": QUERY},
}
# members that their clients read from a refusal without a documented structure
REFUSED = {"code": "string", "message": "string"}
CREDENTIALS = {"Api-Key", "App-Id", "Client-Id"}


def shape_of(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def ours_by_shape() -> dict[str, Any]:
    return {
        f"{verb.upper()} {shape_of(path)}": operation
        for path, operations in OURS["paths"].items()
        for verb, operation in operations.items()
    }


BY_SHAPE = ours_by_shape()
THEIRS = {shape_of(name): operation for name, operation in OPERATIONS.items()}
ANSWERS = [
    pytest.param(
        exchange, id=f"{exchange.name} {exchange.method} {exchange.path} {exchange.status} {number}"
    )
    for number, exchange in enumerate(read_exchanges(GOLDEN, "deployed"))
]


def theirs_of(exchange) -> Any:
    """Return the deployed operation of the call, or None."""
    paths: dict[str, Any] = {}
    for name, operation in OPERATIONS.items():
        verb, path = name.split(" ")
        paths.setdefault(path, {})[verb.lower()] = operation
    return find_operation(paths, exchange)


@pytest.mark.parametrize("exchange", ANSWERS)
def test_each_answer_has_the_deployed_structure(exchange):
    theirs = theirs_of(exchange)
    if theirs is None:
        # Florin's operation, not part of the deployed API
        assert find_operation(OURS["paths"], exchange) is not None
        return
    kind = theirs["answers"].get(str(exchange.status), REFUSED)
    if exchange.status >= 400 and isinstance(kind, list):
        kind = {**REFUSED, "code": "=" + "|".join(kind)}
    assert exchange.status >= 400 or kind is not REFUSED
    assert list_faults(kind, exchange.body) == []


def test_the_answers_are_of_many_operations():
    request = {id(theirs_of(parameter_set.values[0])) for parameter_set in ANSWERS}
    assert len(request) > 10


def test_a_wrong_answer_is_noticed():
    theirs = OPERATIONS["GET /v1/payments/{id}/status"]["answers"]["200"]
    right = {"status": "succeeded", "isFinal": True, "info": None}
    assert list_faults(theirs, right) == []
    for wrong in (
        {**right, "status": "done"},
        {**right, "isFinal": 1},
        {**right, "pollInMs": "1000"},
        {**right, "info": {"txId": "0x1"}},
        {"status": "succeeded"},
    ):
        assert list_faults(theirs, wrong) != [], wrong


@pytest.mark.parametrize("name", THEIRS)
def test_our_document_has_the_operation(name):
    ours, theirs = BY_SHAPE[name], THEIRS[name]
    sent = [resolve_schema(OURS, parameter) for parameter in ours["parameters"]]
    existing = {(p["in"], p["name"]): p.get("required", False) for p in sent}
    for place, parameters in theirs["parameters"].items():
        for written in parameters:
            parameter = written.removesuffix("~")
            if place == "path" or parameter in CREDENTIALS or (name, parameter) in IGNORED:
                continue
            assert (place, parameter) in existing, parameter
    for (place, parameter), required in existing.items():
        if required and place != "path":
            assert parameter in theirs["parameters"].get(place, {}), f"{parameter} is asked for"
    expected = {scheme for item in ours["security"] for scheme in item}
    assert expected >= ({"AppId", "ClientId"} if "/gateway/" in name else {"ApiKey"})


@pytest.mark.parametrize("name", [name for name in THEIRS if THEIRS[name]["request"]])
def test_our_document_takes_their_requests(name):
    body = BY_SHAPE[name]["requestBody"]["content"]["application/json"]["schema"]
    ours = resolve_schema(OURS, body)
    ((theirs,), _) = parse_type(THEIRS[name]["request"])
    for written in theirs:
        member = written.removesuffix("~")
        if (name, member) in IGNORED:
            assert member not in ours["properties"]
            continue
        assert member in ours["properties"], member
        optional = written.endswith("~") or (name, member) in OPTIONAL
        assert (member in ours.get("required", [])) is not optional, member
    # nothing is required that they do not send
    assert set(ours.get("required", [])) <= {m for m in theirs if not m.endswith("~")}


@pytest.mark.parametrize("name", THEIRS)
def test_our_document_promises_their_answers(name):
    responses = BY_SHAPE[name]["responses"]
    for status, theirs in THEIRS[name]["answers"].items():
        answer = resolve_schema(OURS, responses[status])["content"]["application/json"]["schema"]
        if int(status) < 300:
            differences = list_differences(OURS, answer, theirs)
            assert {f for f in differences if not f.endswith("never comes")} == WIDER.get(
                name, {}
            ).keys()
        elif isinstance(theirs, list):
            body = resolve_schema(OURS, answer)
            codes = set(body["allOf"][1]["properties"]["code"]["enum"])
            untold = UNTOLD.get((name, status), {})
            assert set(theirs) - codes == untold.keys()


def test_every_allowed_difference_exists_in_the_deployed_api():
    for name, member in [*OPTIONAL, *IGNORED]:
        theirs = THEIRS[name]
        request = parse_type(theirs["request"])[0][0] if theirs["request"] else {}
        existing = {*request, *(p for place in theirs["parameters"].values() for p in place)}
        assert {member, f"{member}~"} & existing, (name, member)
