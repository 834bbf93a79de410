"""`florin quarantine`: items that workers set aside after an unexpected error."""

from __future__ import annotations

from typing import Any

from florin.v1 import quarantine_pb2

from florin_server.cli.console import console, table, told
from florin_server.cli.operation import ask, minute

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


def show(given: dict[str, Any], *, all_: bool) -> None:
    """Print the items."""
    request = quarantine_pb2.ListQuarantinedItemsRequest(all=all_)
    found = ask(given, "ListQuarantinedItems", request)
    if not told(found):
        table(_COLUMNS, map(_row, found.items))


def retry(given: dict[str, Any], item_ids: list[str], *, all_: bool) -> None:
    """Give items back to their workers, or all that are set aside."""
    if all_:
        request = quarantine_pb2.ListQuarantinedItemsRequest()
        item_ids = [one.item_id for one in ask(given, "ListQuarantinedItems", request).items]
    done = [
        ask(given, "RetryQuarantinedItem", quarantine_pb2.RetryQuarantinedItemRequest(item_id=one))
        for one in item_ids
    ]
    if not told(quarantine_pb2.ListQuarantinedItemsResponse(items=done)):
        for one in done:
            console.print(f"{one.kind} {one.subject} is tried again.")


def resolve(given: dict[str, Any], item_id: str, note: str) -> None:
    """Leave an item out for good."""
    request = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item_id, note=note)
    done = ask(given, "ResolveQuarantinedItem", request)
    if not told(done):
        console.print(f"{done.kind} {done.subject} is left out, without an alarm.")


def _row(item: quarantine_pb2.QuarantinedItem) -> tuple[str, ...]:
    state = quarantine_pb2.QuarantinedItemState.Name(item.state)
    return (
        item.item_id,
        item.kind,
        item.subject,
        item.chain_id,
        state.removeprefix("QUARANTINED_ITEM_STATE_").lower().replace("_", " "),
        str(item.attempts),
        minute(item, "last_at"),
        item.step,
        item.note or item.reason,
    )
