"""The operator's calls about quarantined items."""

from __future__ import annotations

from typing import Any

from florin.v1 import quarantine_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.quarantine import QuarantinedItem, QuarantinedItemState
from florin_server.features.monitoring.service import quarantine as items

_STATE = {
    state: quarantine_pb2.QuarantinedItemState.Value(f"QUARANTINED_ITEM_STATE_{state.upper()}")
    for state in QuarantinedItemState
}


class QuarantineCalls:
    """Quarantined items: list, retry, resolve."""

    _app: ApiContext

    async def ListQuarantinedItems(
        self, request: quarantine_pb2.ListQuarantinedItemsRequest, context: Any
    ) -> quarantine_pb2.ListQuarantinedItemsResponse:
        """List quarantined items."""
        found_items = await items.list_items(self._app, include_closed=request.all)
        return quarantine_pb2.ListQuarantinedItemsResponse(items=map(_to_message, found_items))

    async def RetryQuarantinedItem(
        self, request: quarantine_pb2.RetryQuarantinedItemRequest, context: Any
    ) -> quarantine_pb2.QuarantinedItem:
        """Return an item to its worker."""
        return _to_message(await items.retry(self._app, request.item_id))

    async def ResolveQuarantinedItem(
        self, request: quarantine_pb2.ResolveQuarantinedItemRequest, context: Any
    ) -> quarantine_pb2.QuarantinedItem:
        """Exclude an item permanently."""
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
        first_at=to_timestamp(item.first_at_us),
        last_at=to_timestamp(item.last_at_us),
        note=item.note or "",
    )
