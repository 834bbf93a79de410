"""What the operator owes to the merchants of a partner."""

from __future__ import annotations

from florin.v1 import account_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.money.ledger.service.owed import list_merchant_balances
from florin_server.web.console.shell import parse_merchant
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/balances"
# merchants of a page
_MERCHANTS_SHOWN = 50


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the balances of a page of merchants, the newest merchants first."""
    request = account_pb2.ListMerchantsRequest(
        limit=_MERCHANTS_SHOWN, cursor=console_request.query.get("cursor") or None
    )
    if chosen := parse_merchant(console_request.query):
        request.search = chosen
    response = await console_request.call("AdminService.ListMerchants", request)
    names = {
        merchant.id: merchant.name for merchant in response.merchants if chosen in {"", merchant.id}
    }
    app = console_request.console.app
    assets = {asset.id for _, asset in app.list_assets(live=console_request.session.live).values()}
    return console_request.render_page(
        "merchant/balances",
        console_request.texts.plain("nav.balances"),
        balances=await list_merchant_balances(app, names, sorted(assets)),
        names=names,
        next_cursor=response.next_cursor,
    )
