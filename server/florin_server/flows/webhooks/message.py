"""What an endpoint is told next of a payment, and what it is signed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.domain.sealed import Lost
from florin_server.domain.webhooks.signing import Keys, event_id
from florin_server.domain.webhooks.snapshot import snapshot_at
from florin_server.flows.app import Core
from florin_server.flows.webhooks.endpoints import sealed_for
from florin_server.store.webhooks.deliveries import Claimed, Work
from florin_server.store.webhooks.endpoints import Secret


@dataclass(frozen=True, slots=True)
class Message:
    """One event as an endpoint is told it; `version` is its place."""

    id: str
    version: int
    event_type: str
    body: bytes


def next_message(core: Core, one: Claimed, work: Work) -> Message | None:
    """The first event that the endpoint wants to hear of; None if it wants none of them."""
    for event in work.happened:
        event_type = event.event_type
        if event_type is None or not one.endpoint.wants(event_type):
            continue
        if not one.waiting.wants(event.place, event_type):
            continue
        if core.webhooks.body is None:
            raise RuntimeError("nobody here writes what endpoints are told")
        snapshot = snapshot_at(work.payment, work.option, work.history, event)
        name = event_id(work.payment.id, event.place)
        return Message(name, event.place, event_type, core.webhooks.body(snapshot))
    return None


def opened(core: Core, endpoint_id: str, kept: Sequence[Secret]) -> list[Keys]:
    """What messages are signed with, the newest first; Lost if the newest cannot be read."""
    keys: list[Keys] = []
    for secret in kept:
        try:
            text = core.seal.open(secret.sealed, sealed_for(endpoint_id, secret.n))
        except Lost:
            if not keys:
                raise
            continue
        keys.append(Keys.of(text))
    if not keys:
        raise Lost
    return keys
