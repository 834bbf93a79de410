"""Clients of the deployed API find what they know: in our answers, and in our document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from florin_server.web.openapi import DOCUMENT
from florin_server.web.openapi.examples import exchanges, operation_of

from tests.support.deployed import OPERATIONS, differences, faults, opened
from tests.support.shapes import resolved

GOLDEN = Path(__file__).parent / "golden"
OURS = json.loads(DOCUMENT.read_text())

# what answers of ours may be that theirs are not, each with the reason
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
# parameters and members that are not asked for here
OPTIONAL = {
    ("POST /v1/payments", "referenceId"): "a deployed till leaves it out",
    ("POST /v1/gateway/payment/{}/fetch", "data"): "absent stands for the only build action",
}
# what is sent and read by nobody
IGNORED = {
    ("POST /v1/gateway/payment/{}/options", "refresh"): "answers are always fresh",
    ("GET /v1/payments/{}", "Idempotency-Key"): "ignored on GET",
    ("GET /v1/payments/{}/status", "Idempotency-Key"): "ignored on GET",
}
# codes that we do not tell
QUERY = "a faulty query is invalid_params, only a body can be params_validation"
UNTOLD = {
    ("GET /v1/payments", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants/payments", "400"): {"params_validation": QUERY},
    ("GET /v1/merchants/{}/payments", "400"): {"params_validation": QUERY},
}
# what their clients read of a refusal that their operation does not tell
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
    pytest.param(one, id=f"{one.name} {one.method} {one.path} {one.status} {number}")
    for number, one in enumerate(exchanges(GOLDEN, "deployed"))
]


def theirs_of(exchange) -> Any:
    """The deployed operation that was asked, if there is one."""
    paths: dict[str, Any] = {}
    for name, operation in OPERATIONS.items():
        verb, path = name.split(" ")
        paths.setdefault(path, {})[verb.lower()] = operation
    return operation_of(paths, exchange)


@pytest.mark.parametrize("exchange", ANSWERS)
def test_each_answer_has_the_deployed_structure(exchange):
    theirs = theirs_of(exchange)
    if theirs is None:
        # ours, and not theirs
        assert operation_of(OURS["paths"], exchange) is not None
        return
    kind = theirs["answers"].get(str(exchange.status), REFUSED)
    if exchange.status >= 400 and isinstance(kind, list):
        kind = {**REFUSED, "code": "=" + "|".join(kind)}
    assert exchange.status >= 400 or kind is not REFUSED
    assert faults(kind, exchange.body) == []


def test_the_answers_are_of_many_operations():
    asked = {id(theirs_of(one.values[0])) for one in ANSWERS}
    assert len(asked) > 10


def test_a_wrong_answer_is_noticed():
    theirs = OPERATIONS["GET /v1/payments/{id}/status"]["answers"]["200"]
    right = {"status": "succeeded", "isFinal": True, "info": None}
    assert faults(theirs, right) == []
    for wrong in (
        {**right, "status": "done"},
        {**right, "isFinal": 1},
        {**right, "pollInMs": "1000"},
        {**right, "info": {"txId": "0x1"}},
        {"status": "succeeded"},
    ):
        assert faults(theirs, wrong) != [], wrong


@pytest.mark.parametrize("name", THEIRS)
def test_our_document_has_the_operation(name):
    ours, theirs = BY_SHAPE[name], THEIRS[name]
    sent = [resolved(OURS, parameter) for parameter in ours["parameters"]]
    known = {(p["in"], p["name"]): p.get("required", False) for p in sent}
    for place, parameters in theirs["parameters"].items():
        for written in parameters:
            parameter = written.removesuffix("~")
            if place == "path" or parameter in CREDENTIALS or (name, parameter) in IGNORED:
                continue
            assert (place, parameter) in known, parameter
    for (place, parameter), required in known.items():
        if required and place != "path":
            assert parameter in theirs["parameters"].get(place, {}), f"{parameter} is asked for"
    wanted = {scheme for one in ours["security"] for scheme in one}
    assert wanted >= ({"AppId", "ClientId"} if "/gateway/" in name else {"ApiKey"})


@pytest.mark.parametrize("name", [name for name in THEIRS if THEIRS[name]["request"]])
def test_our_document_takes_their_requests(name):
    body = BY_SHAPE[name]["requestBody"]["content"]["application/json"]["schema"]
    ours = resolved(OURS, body)
    ((theirs,), _) = opened(THEIRS[name]["request"])
    for written in theirs:
        member = written.removesuffix("~")
        if (name, member) in IGNORED:
            assert member not in ours["properties"]
            continue
        assert member in ours["properties"], member
        optional = written.endswith("~") or (name, member) in OPTIONAL
        assert (member in ours.get("required", [])) is not optional, member
    # nothing is asked for that they do not send
    assert set(ours.get("required", [])) <= {m for m in theirs if not m.endswith("~")}


@pytest.mark.parametrize("name", THEIRS)
def test_our_document_promises_their_answers(name):
    told = BY_SHAPE[name]["responses"]
    for status, theirs in THEIRS[name]["answers"].items():
        answer = resolved(OURS, told[status])["content"]["application/json"]["schema"]
        if int(status) < 300:
            found = differences(OURS, answer, theirs)
            assert {f for f in found if not f.endswith("never comes")} == WIDER.get(name, {}).keys()
        elif isinstance(theirs, list):
            codes = set(answer["allOf"][1]["properties"]["code"]["enum"])
            untold = UNTOLD.get((name, status), {})
            assert set(theirs) - codes == untold.keys()


def test_every_difference_that_is_allowed_is_one():
    for name, member in [*OPTIONAL, *IGNORED]:
        theirs = THEIRS[name]
        request = opened(theirs["request"])[0][0] if theirs["request"] else {}
        known = {*request, *(p for place in theirs["parameters"].values() for p in place)}
        assert {member, f"{member}~"} & known, (name, member)
