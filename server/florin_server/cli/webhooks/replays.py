"""`florin webhooks replay`: events are told again, those of a payment or those since a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from florin.v1 import webhook_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.boot.operator.error import OperatorError
from florin_server.cli.console import console, note, told
from florin_server.cli.operation import ask, ask_in_turn, misused
from florin_server.domain.errors import Code

# what waits for an endpoint is delivered meanwhile
_FULL_S = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A payment from a version on, or everything since a time, of some types or of all."""

    payment: str
    version: int
    since: datetime | None
    events: Sequence[str]


def run(given: dict[str, Any], endpoint_id: str, wanted: Wanted) -> None:
    """Has the events told again."""
    if bool(wanted.payment) == (wanted.since is not None):
        misused("name a payment, or a time with --since")
    if wanted.since is None:
        _payment(given, endpoint_id, wanted)
    else:
        _since(given, endpoint_id, wanted.since, wanted.events)


def _payment(given: dict[str, Any], endpoint_id: str, wanted: Wanted) -> None:
    request = webhook_pb2.ReplayWebhookRequest(
        id=endpoint_id, payment_id=wanted.payment, from_version=wanted.version
    )
    done = ask(given, "ReplayWebhook", request)
    if not told(done):
        console.print(f"{wanted.payment} is told again, up to version {done.to_version}.")


def _since(given: dict[str, Any], endpoint_id: str, since: datetime, events: Sequence[str]) -> None:
    at = Timestamp()
    at.FromDatetime(since.replace(tzinfo=UTC))
    request = webhook_pb2.ReplayWebhooksSinceRequest(id=endpoint_id, since=at, events=events)

    async def pages(service: Any) -> int:
        count = 0
        while True:
            try:
                page = await service.ask("ReplayWebhooksSince", request)
            except OperatorError as error:
                if error.code != Code.RATE_LIMITED:
                    raise
                note(f"{count} payments so far: {error}")
                await asyncio.sleep(_FULL_S)
                continue
            count += int(page.payments)
            if not page.HasField("next_cursor"):
                return count
            request.cursor = page.next_cursor

    count = ask_in_turn(given, pages)
    if not told({"payments": count}):
        console.print(f"Payments whose events are told again: {count}.")
