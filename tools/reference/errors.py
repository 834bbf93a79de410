"""`errors.md`: every error code with its statuses, its meaning, and the calls that return it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from florin_server.domain.errors import ERROR_DETAILS, ERROR_SPECS, ErrorCode
from florin_server.web.openapi.refusals import DEPLOYED_ONLY, list_refusals
from grpc_rest_gateway.openapi import ProtoComments, SchemaRegistry, list_operations

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

_ABOUT = """\
A call that is refused returns, over REST, an HTTP status of 400 or above and this body:

    {"code": "payment_expired", "message": "Payment expired", "requestId": "…",
     "issues": [{"field": "amount.value", "message": "…"}], "details": {"reason": "…"}}

`issues` and `details` are present only if they have content. Over gRPC the status has the same
data: the message, and in its details a `google.rpc.ErrorInfo` (`reason` is the code in capitals,
`metadata` has `code`, `http_status` and the facts of `details`), a `BadRequest` with the issues,
and a `RetryInfo` if the call can succeed later, which REST sends as `Retry-After`.

Programs must check `code`, never `message`, and accept codes that they do not know."""

_NOTES = """\
`internal_error` comes with 503 and `UNAVAILABLE` if the same call can succeed later: the service
is stopping, or its database or a chain does not respond. The REST gateway also returns
`invalid_params` for requests that it does not read: 408 if a request arrives too slowly, 413 if its
body is too large, 415 for a wrong media type, 431 if its headers are too large."""

_DEPLOYED = """\
Only callers of the deployed profile (`WCP-Version` without `Pay-Version`) get codes with a *. For
the same errors other callers get one of the codes above: `merchant_not_found`,
`payment_not_found`, `invalid_params`, `invalid_state`, or `internal_error` with 503."""


def render_errors(image: bytes) -> str:
    """Return the document; `image` is the descriptor set of the protos with comments."""
    comments, calls = ProtoComments(image), _collect_calls()
    rows = [
        (
            format_code(code) + ("*" if code in DEPLOYED_ONLY else ""),
            str(meaning.http_status),
            format_code(meaning.grpc_status),
            meaning.message,
            format_sentence(_format_meaning(comments, code)),
        )
        for code, meaning in ERROR_SPECS.items()
    ]
    return render_page(
        "Error codes",
        _ABOUT,
        render_table(("Code", "HTTP", "gRPC", "Message", "Meaning"), rows),
        _DEPLOYED,
        _NOTES,
        "## Facts in `details`\n\nEach fact is a text, also numbers and times. More can be added.",
        render_table(
            ("Name", "Fact"), [(format_code(name), text) for name, text in ERROR_DETAILS.items()]
        ),
        "## Which call answers which code\n\nCalls of the public services that have a REST route. "
        "Other codes come only from calls of the operator, or over gRPC.",
        render_table(
            ("Code", "Calls"),
            [
                (format_code(code), _format_calls(calls, code))
                for code in ERROR_SPECS
                if calls[code]
            ],
        ),
    )


def _format_meaning(comments: ProtoComments, error_code: ErrorCode) -> str:
    text = comments.get_comment(f"florin.v1.ErrorCode.ERROR_CODE_{error_code.upper()}")
    return text.removeprefix("Deployed profile: ")


CallsByCode = dict[ErrorCode | None, set[str]]
"""The RPCs that can return each code; all RPCs for None."""


def _collect_calls() -> CallsByCode:
    calls_by_code: CallsByCode = defaultdict(set)
    for operation in list_operations(PUBLIC_SERVICES, SchemaRegistry(ProtoComments())):
        method = operation.method
        name = f"{method.containing_service.name}.{method.name}"
        calls_by_code[None].add(name)
        refusals = list_refusals(method, has_body=operation.binding.has_body)
        for code in set().union(*refusals.values()):
            calls_by_code[code].add(name)
    return calls_by_code


def _format_calls(calls: CallsByCode, error_code: ErrorCode) -> str:
    """Return the calls in few words: whole services by name."""
    mine, everything = calls[error_code], calls[None]
    if mine == everything:
        return "every call"
    words = []
    for service in sorted({name.partition(".")[0] for name in mine}):
        here, all_here = _list_methods(mine, service), _list_methods(everything, service)
        missing = all_here - here
        if not missing:
            words.append(f"every call of {service}")
        elif len(missing) < len(here) / 2:
            words.append(f"every call of {service} but {_format_names(missing)}")
        else:
            words.append(f"{service}: {_format_names(here)}")
    return "; ".join(words)


def _list_methods(names: Iterable[str], service: str) -> set[str]:
    return {name.partition(".")[2] for name in names if name.startswith(f"{service}.")}


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(format_code(name) for name in sorted(names))
