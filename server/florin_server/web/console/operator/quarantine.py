"""Quarantined items: the error, and the operator's decision."""

from __future__ import annotations

from florin.v1 import quarantine_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/quarantine"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the items that wait for the operator; on request, all items."""
    everything = console_request.query.get("all") == "1"
    request = quarantine_pb2.ListQuarantinedItemsRequest(all=everything)
    result = await console_request.call("OperatorService.ListQuarantinedItems", request)
    return console_request.render_page(
        "operator/quarantine",
        console_request.texts.plain("nav.quarantine"),
        items=result.items,
        everything=everything,
    )


async def retry(console_request: ConsoleRequest) -> PlainResponse:
    """Return an item to its worker."""
    request = quarantine_pb2.RetryQuarantinedItemRequest(item_id=console_request.form.text("item"))
    await console_request.call("OperatorService.RetryQuarantinedItem", request)
    return console_request.redirect_to(PATH)


async def confirm_resolve(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before an item is resolved for good."""
    form, texts = console_request.form, console_request.texts
    return ActionConfirmation(
        title=texts.plain("quarantine.resolve.ask"),
        button=texts.plain("quarantine.resolve.button"),
        back=PATH,
        facts=(
            (texts.plain("quarantine.item"), form.text("item")),
            (texts.plain("note"), form.text("note")),
        ),
        warning=texts.plain("quarantine.resolve.warning"),
    )


async def resolve(console_request: ConsoleRequest) -> PlainResponse:
    """Resolve an item, so that no worker processes it."""
    request = quarantine_pb2.ResolveQuarantinedItemRequest(
        item_id=console_request.form.text("item"), note=console_request.form.text("note")
    )
    await console_request.call("OperatorService.ResolveQuarantinedItem", request)
    return console_request.redirect_to(PATH)
