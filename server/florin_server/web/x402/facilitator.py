"""The facilitator of x402: other servers verify and settle their buyers' payments here.

Callers authenticate with an API key as everywhere. A payment that is refused is no error of the
call: the answer says so, as servers of x402 expect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from florin.v1 import access_pb2
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.api.server.auth import Authenticator
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.x402.messages import InvalidX402Payment, parse_request
from florin_server.limits.context import LimitContext
from florin_server.money.x402.service import facilitator as service
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web.handlers import Routes
from florin_server.web.refusal import to_refused_error


class _Context(
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_PREFIX: Final = "/x402/facilitator"
_RULE: Final = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_ACCOUNT, scope=access_pb2.KEY_SCOPE_FACILITATE
)
_UNAUTHENTICATED: Final = 401
_Answer = Callable[[PlainRequest, Caller], Awaitable[PlainResponse]]


def build_routes(app: _Context, authenticator: Authenticator) -> Routes:
    """Return the handlers by method and path; none while the facilitator is off."""
    if not app.settings.x402.facilitator:
        return {}

    async def list_supported(_request: PlainRequest, caller: Caller) -> PlainResponse:
        return PlainResponse.from_json(service.list_supported(app, live=caller.live))

    async def verify(request: PlainRequest, caller: Caller) -> PlainResponse:
        try:
            payer = await service.verify(app, caller, *parse_request(request.body))
        except InvalidX402Payment as error:
            answer = {"isValid": False, "invalidReason": error.reason.value}
            answer |= {"invalidMessage": error.message, "payer": error.payer}
            return PlainResponse.from_json(answer)
        return PlainResponse.from_json({"isValid": True, "payer": payer})

    async def settle(request: PlainRequest, caller: Caller) -> PlainResponse:
        try:
            answer = await service.settle(app, caller, *parse_request(request.body))
        except InvalidX402Payment as error:
            refusal = {"success": False, "errorReason": error.reason.value}
            refusal |= {"errorMessage": error.message, "payer": error.payer}
            return PlainResponse.from_json({**refusal, "transaction": "", "network": ""})
        return PlainResponse.from_json(answer.to_json())

    handlers: dict[tuple[str, str], _Answer] = {
        ("GET", "supported"): list_supported,
        ("POST", "verify"): verify,
        ("POST", "settle"): settle,
    }
    return {
        (method, f"{_PREFIX}/{name}"): _make_handler(app, authenticator, answer)
        for (method, name), answer in handlers.items()
    }


def _make_handler(app: _Context, authenticator: Authenticator, answer: _Answer) -> PlainHandler:
    async def handle(request: PlainRequest) -> PlainResponse:
        try:
            return await answer(request, await _authenticate(app, authenticator, request))
        except ApiError as error:
            raise to_refused_error(error) from error

    return handle


async def _authenticate(
    app: _Context, authenticator: Authenticator, request: PlainRequest
) -> Caller:
    """Return the caller, counted; ApiError without the scope, or above a limit."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    try:
        caller = await authenticator.authenticate(_RULE, headers, get_peer_network(request.peer))
    except ApiError as error:
        if error.http_status == _UNAUTHENTICATED:
            app.limits.count_failure(request.peer)
        raise
    quota = app.limits.count_key_call(caller.credential)
    if quota is not None and not quota.is_admitted:
        raise ApiError(ErrorCode.RATE_LIMITED, retry_after_s=max(1, quota.wait_s))
    return caller
