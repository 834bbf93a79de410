"""`errors.md`: every error code with its statuses, its meaning, and the calls that answer it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from florin_gateway.openapi import Comments, Schemas, operations_of
from florin_server.boot.servers.grpc_server import PUBLIC
from florin_server.domain.errors import DETAILS, REGISTRY, Code
from florin_server.web.openapi.refusals import DEPLOYED_ONLY, refusals_of

from tools.reference.markdown import code, page, sentence, table

_ABOUT = """\
A call that is refused answers over REST with an HTTP status from 400 on and this body:

    {"code": "payment_expired", "message": "Payment expired", "requestId": "…",
     "issues": [{"field": "amount.value", "message": "…"}], "details": {"reason": "…"}}

`issues` and `details` are there only where there is something to tell. Over gRPC the same is in the
status: the message, and in its details a `google.rpc.ErrorInfo` (`reason` is the code in capitals,
`metadata` holds `code`, `http_status` and the facts of `details`), a `BadRequest` with the issues,
and a `RetryInfo` when the same call may succeed later, which REST tells in `Retry-After`.

Programs look at `code`, never at `message`, and expect codes that they do not know."""

_NOTES = """\
`internal_error` is told with 503 and `UNAVAILABLE` where the same call may succeed later: the
service is stopping, or its store or a chain does not answer. `invalid_params` is also what the REST
gateway says of a request that it does not read: 408 if it comes too slowly, 413 if its body is too
long, 415 if that is of another media type, 431 if its headers are too long."""

_DEPLOYED = """\
Codes with a * are told to callers of the deployed profile only (`WCP-Version` without
`Pay-Version`). For the same faults others are told one of the codes above: `merchant_not_found`,
`payment_not_found`, `invalid_params`, `invalid_state`, or `internal_error` with 503."""


def errors(image: bytes) -> str:
    """The document; `image` is the descriptor set of the protos with comments."""
    comments, calls = Comments(image), _calls()
    rows = [
        (
            code(one) + ("*" if one in DEPLOYED_ONLY else ""),
            str(meaning.http),
            code(meaning.grpc),
            meaning.message,
            sentence(_meaning(comments, one)),
        )
        for one, meaning in REGISTRY.items()
    ]
    return page(
        "Error codes",
        _ABOUT,
        table(("Code", "HTTP", "gRPC", "Message", "Meaning"), rows),
        _DEPLOYED,
        _NOTES,
        "## Facts in `details`\n\nEach is a text, also numbers and times. More may come.",
        table(("Name", "Fact"), [(code(name), text) for name, text in DETAILS.items()]),
        "## Which call answers which code\n\nCalls of the public services that have a REST route. "
        "A code that is not here is told by calls of the operator, or by gRPC only.",
        table(
            ("Code", "Calls"), [(code(one), _told(calls, one)) for one in REGISTRY if calls[one]]
        ),
    )


def _meaning(comments: Comments, one: Code) -> str:
    text = comments.of(f"florin.v1.ErrorCode.ERROR_CODE_{one.upper()}")
    return text.removeprefix("Deployed profile: ")


Calls = dict[Code | None, set[str]]
"""The RPCs that may answer each code; all of them for None."""


def _calls() -> Calls:
    found: Calls = defaultdict(set)
    for operation in operations_of(PUBLIC, Schemas(Comments())):
        method = operation.method
        name = f"{method.containing_service.name}.{method.name}"
        found[None].add(name)
        refusals = refusals_of(method, has_body=operation.binding.has_body)
        for one in set().union(*refusals.values()):
            found[one].add(name)
    return found


def _told(calls: Calls, one: Code) -> str:
    """The calls in few words: whole services by their names."""
    mine, everything = calls[one], calls[None]
    if mine == everything:
        return "every call"
    words = []
    for service in sorted({name.partition(".")[0] for name in mine}):
        here, all_here = _of(mine, service), _of(everything, service)
        missing = all_here - here
        if not missing:
            words.append(f"every call of {service}")
        elif len(missing) < len(here) / 2:
            words.append(f"every call of {service} but {_listed(missing)}")
        else:
            words.append(f"{service}: {_listed(here)}")
    return "; ".join(words)


def _of(names: Iterable[str], service: str) -> set[str]:
    return {name.partition(".")[2] for name in names if name.startswith(f"{service}.")}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in sorted(names))
