"""Sign-ins in the audit log: each that succeeds, and the number of those that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainRequest

from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.addresses import get_peer_address
from florin_server.domain.audit import (
    Actor,
    ActorKind,
    AuditAction,
    AuditChange,
    AuditChannel,
    AuditObject,
)
from florin_server.domain.refusals import bad_gateway_error
from florin_server.money.payments.service.search import find_partner_id
from florin_server.operations.context import SignInContext
from florin_server.operations.service.audit_log import record_now
from florin_server.web.console.config import SecretVerifier
from florin_server.web.refusal import to_refused_error

if TYPE_CHECKING:
    from florin_server.web.console.site import Console

_UNAUTHENTICATED = 401


def count_failures(app: SignInContext, console: str, verify: SecretVerifier) -> SecretVerifier:
    """Return a check of secrets that also counts wrong ones, by address."""

    async def verify_secret(secret: str, peer: str) -> tuple[str, bool]:
        try:
            return await verify(secret, peer)
        except RefusedError as refused:
            if refused.status == _UNAUTHENTICATED:
                app.sign_in_failures.count(console, get_peer_address(peer))
            raise

    return verify_secret


async def record_sign_in(
    console: Console, request: PlainRequest, holder: str, *, live: bool
) -> None:
    """Record a sign-in before its session starts; RefusedError without a store."""
    is_operator = console.config.name == "operator"
    actor = Actor(
        ActorKind.OPERATOR if is_operator else ActorKind.KEY,
        AuditChannel.CONSOLE,
        "" if is_operator else holder,
        get_peer_address(request.peer),
    )
    try:
        partner_id = None if is_operator else await find_partner_id(console.app, holder)
        change = AuditChange(
            AuditAction.SIGN_IN_DONE,
            AuditObject.SESSION,
            "",
            partner_id,
            live if partner_id else None,
        )
        await record_now(console.app, [change], actor)
    except StoreUnavailable as down:
        raise to_refused_error(bad_gateway_error(wcp_profile=False)) from down
