"""`florin quarantine`: items that workers quarantined after an unexpected error."""

from __future__ import annotations

from typing import Any

from florin.v1 import quarantine_pb2

from florin_server.cli.console import console, print_json, print_table
from florin_server.cli.operation import call_operator, format_minute

_COLUMNS = (
    "Item id",
    "Kind",
    "Subject",
    "Chain",
    "State",
    "Times",
    "Last",
    "Step",
    "Error or note",
)


def list_items(overrides: dict[str, Any], *, all_: bool) -> None:
    """Print quarantined items, or all of them."""
    request = quarantine_pb2.ListQuarantinedItemsRequest(all=all_)
    result = call_operator(overrides, "ListQuarantinedItems", request)
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.items))


def retry_items(overrides: dict[str, Any], item_ids: list[str], *, all_: bool) -> None:
    """Return items to their workers: the named ones, or all quarantined ones."""
    if all_:
        request = quarantine_pb2.ListQuarantinedItemsRequest()
        item_ids = [
            each_item.item_id
            for each_item in call_operator(overrides, "ListQuarantinedItems", request).items
        ]
    done = [
        call_operator(
            overrides,
            "RetryQuarantinedItem",
            quarantine_pb2.RetryQuarantinedItemRequest(item_id=item_id),
        )
        for item_id in item_ids
    ]
    if not print_json(quarantine_pb2.ListQuarantinedItemsResponse(items=done)):
        for item in done:
            console.print(f"{item.kind} {item.subject} will be retried.")


def resolve_item(overrides: dict[str, Any], item_id: str, note: str) -> None:
    """Resolve an item: its worker skips it permanently."""
    request = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item_id, note=note)
    done = call_operator(overrides, "ResolveQuarantinedItem", request)
    if not print_json(done):
        console.print(f"{done.kind} {done.subject} is resolved: no retry, no alarm.")


def _to_row(item: quarantine_pb2.QuarantinedItem) -> tuple[str, ...]:
    state = quarantine_pb2.QuarantinedItemState.Name(item.state)
    return (
        item.item_id,
        item.kind,
        item.subject,
        item.chain_id,
        state.removeprefix("QUARANTINED_ITEM_STATE_").lower().replace("_", " "),
        str(item.attempts),
        format_minute(item, "last_at"),
        item.step,
        item.note or item.reason,
    )
