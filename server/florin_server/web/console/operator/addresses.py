"""Money that is still at payments' addresses, and the operator's request to send it home."""

from __future__ import annotations

from florin.v1 import address_pb2
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.operator import held
from florin_server.web.console.refusals import describe_refusal
from florin_server.web.console.site import ConsoleRequest

PATH = f"{held.PATH}/addresses"
SWEEP_PATH = f"{PATH}/sweep"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List what is at the addresses of a chain; the first chain unless another is chosen."""
    chains = [
        rail.chain_id
        for rail in console_request.console.app.rails.values()
        if rail.addresses is not None
    ]
    chain_id = console_request.query.get("chain", chains[0] if chains else "")
    listed, problem = address_pb2.ListAddressMoneyResponse(), ""
    if chain_id:
        request = address_pb2.ListAddressMoneyRequest(chain_id=chain_id)
        try:
            listed = await console_request.call("OperatorService.ListAddressMoney", request)
        except RefusedError as error:
            problem = describe_refusal(error, console_request.texts)
    return console_request.render_page(
        "operator/addresses",
        console_request.texts.plain("addresses.title"),
        chains=chains,
        chain_id=chain_id,
        items=listed.items,
        has_more=listed.has_more,
        problem=problem,
    )


async def confirm_sweep(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before money is sent home; the facts are what the addresses hold now."""
    texts, formatter = console_request.texts, console_request.formatter
    request = _build_request(console_request)
    listed = await console_request.call(
        "OperatorService.ListAddressMoney",
        address_pb2.ListAddressMoneyRequest(chain_id=request.chain_id),
    )
    chosen = {(item.address, item.asset) for item in request.items}
    return ActionConfirmation(
        title=texts.plain("addresses.ask"),
        button=texts.plain("addresses.sweep"),
        back=PATH,
        facts=tuple(
            (formatter.minor(item.asset, item.amount), f"{item.address} ({item.payment_id})")
            for item in listed.items
            if (item.address, item.asset) in chosen
        ),
        warning=texts.plain("addresses.warning"),
    )


async def sweep(console_request: ConsoleRequest) -> PlainResponse:
    """Request that money is sent home."""
    request = _build_request(console_request)
    await console_request.call("OperatorService.SweepAddresses", request)
    return console_request.redirect_to(f"{PATH}?chain={request.chain_id}")


def _build_request(console_request: ConsoleRequest) -> address_pb2.SweepAddressesRequest:
    """Return the request of a form; of two assets at an address, the first."""
    form = console_request.form
    items: dict[str, address_pb2.AddressAsset] = {}
    for value in form.texts("item"):
        address, _, asset = value.partition(" ")
        items.setdefault(address, address_pb2.AddressAsset(address=address, asset=asset))
    return address_pb2.SweepAddressesRequest(
        chain_id=form.text("chain"), items=list(items.values())
    )
