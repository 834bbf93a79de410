"""The operator's calls about items that were set aside."""

from __future__ import annotations

from typing import Any

from florin.v1 import quarantine_pb2

from florin_server.domain.quarantine import ItemState, QuarantinedItem
from florin_server.flows.app import App
from florin_server.flows.quarantine import items
from florin_server.rpc.server.timestamps import timestamp

_STATE = {
    state: quarantine_pb2.QuarantinedItemState.Value(f"QUARANTINED_ITEM_STATE_{state.upper()}")
    for state in ItemState
}


class QuarantineCalls:
    """Items that were set aside: list, retry, resolve."""

    _app: App

    async def ListQuarantinedItems(
        self, request: quarantine_pb2.ListQuarantinedItemsRequest, context: Any
    ) -> quarantine_pb2.ListQuarantinedItemsResponse:
        """List items."""
        found = await items.list_items(self._app, all_=request.all)
        return quarantine_pb2.ListQuarantinedItemsResponse(items=map(_to_message, found))

    async def RetryQuarantinedItem(
        self, request: quarantine_pb2.RetryQuarantinedItemRequest, context: Any
    ) -> quarantine_pb2.QuarantinedItem:
        """Give an item back to its worker."""
        return _to_message(await items.retry(self._app, request.item_id))

    async def ResolveQuarantinedItem(
        self, request: quarantine_pb2.ResolveQuarantinedItemRequest, context: Any
    ) -> quarantine_pb2.QuarantinedItem:
        """Leave an item out for good."""
        return _to_message(await items.resolve(self._app, request.item_id, request.note))


def _to_message(item: QuarantinedItem) -> quarantine_pb2.QuarantinedItem:
    return quarantine_pb2.QuarantinedItem(
        item_id=item.id,
        kind=item.kind,
        chain_id=item.chain_id,
        subject=item.subject,
        step=item.step,
        reason=item.reason,
        state=_STATE[item.state],
        attempts=item.attempts,
        first_at=timestamp(item.first_at_us),
        last_at=timestamp(item.last_at_us),
        note=item.note or "",
    )
