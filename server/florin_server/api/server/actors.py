"""The actor of a call, as the audit log records it."""

from __future__ import annotations

from florin_server.domain.accounts.caller import Caller
from florin_server.domain.addresses import get_peer_address
from florin_server.domain.audit import Actor, ActorKind, AuditChannel


def build_actor(caller: Caller, channel: AuditChannel, peer: str, request_id: str) -> Actor:
    """Return the actor of a call from a gRPC peer; the operator has no credential."""
    kind = ActorKind.KEY if caller.credential else ActorKind.OPERATOR
    return Actor(kind, channel, caller.credential, get_peer_address(peer), request_id)
