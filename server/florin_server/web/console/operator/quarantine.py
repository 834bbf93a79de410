"""Items that were set aside: what failed, and what the operator does about it."""

from __future__ import annotations

from florin.v1 import quarantine_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.site import Visit

PATH = "/console/quarantine"


async def show(visit: Visit) -> PlainAnswer:
    """Show what waits for the operator; all items if that is asked for."""
    everything = visit.query.get("all") == "1"
    request = quarantine_pb2.ListQuarantinedItemsRequest(all=everything)
    found = await visit.ask("OperatorService.ListQuarantinedItems", request)
    return visit.page("operator/quarantine", "Quarantine", items=found.items, everything=everything)


async def retry(visit: Visit) -> PlainAnswer:
    """Give an item back to its worker."""
    request = quarantine_pb2.RetryQuarantinedItemRequest(item_id=visit.form.text("item"))
    await visit.ask("OperatorService.RetryQuarantinedItem", request)
    return visit.see(PATH)


async def resolve(visit: Visit) -> PlainAnswer:
    """Leave an item out for good."""
    request = quarantine_pb2.ResolveQuarantinedItemRequest(
        item_id=visit.form.text("item"), note=visit.form.text("note")
    )
    await visit.ask("OperatorService.ResolveQuarantinedItem", request)
    return visit.see(PATH)
