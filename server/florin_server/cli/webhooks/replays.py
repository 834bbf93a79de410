"""`florin webhooks replay`: send the events of a payment, or since a time, again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from florin.v1 import webhook_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.app.operator.error import OperatorError
from florin_server.cli.console import console, print_hint, print_json
from florin_server.cli.operation import call_operator, run_with_operator, usage_error
from florin_server.domain.errors import ErrorCode

# time for queued deliveries to drain before the next try
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The events to replay: of a payment from a version on, or since a time by event type."""

    payment: str
    version: int
    since: datetime | None
    events: Sequence[str]


def replay_events(overrides: dict[str, Any], endpoint_id: str, options: ReplayOptions) -> None:
    """Queue the events for delivery again."""
    if bool(options.payment) == (options.since is not None):
        usage_error("pass either a payment id or --since")
    if options.since is None:
        _replay_payment(overrides, endpoint_id, options)
    else:
        _replay_since(overrides, endpoint_id, options.since, options.events)


def _replay_payment(overrides: dict[str, Any], endpoint_id: str, options: ReplayOptions) -> None:
    request = webhook_pb2.ReplayWebhookRequest(
        id=endpoint_id, payment_id=options.payment, from_version=options.version
    )
    done = call_operator(overrides, "ReplayWebhook", request)
    if not print_json(done):
        console.print(f"Queued the events of {options.payment} up to version {done.to_version}.")


def _replay_since(
    overrides: dict[str, Any], endpoint_id: str, since: datetime, events: Sequence[str]
) -> None:
    at = Timestamp()
    at.FromDatetime(since.replace(tzinfo=UTC))
    request = webhook_pb2.ReplayWebhooksSinceRequest(id=endpoint_id, since=at, events=events)

    async def pages(service: Any) -> int:
        count = 0
        while True:
            try:
                page = await service.call("ReplayWebhooksSince", request)
            except OperatorError as error:
                if error.code != ErrorCode.RATE_LIMITED:
                    raise
                print_hint(f"{count} payments so far: {error}")
                await asyncio.sleep(_RETRY_S)
                continue
            count += int(page.payments)
            if not page.HasField("next_cursor"):
                return count
            request.cursor = page.next_cursor

    count = run_with_operator(overrides, pages)
    if not print_json({"payments": count}):
        console.print(f"Queued the events of {count} payments.")
