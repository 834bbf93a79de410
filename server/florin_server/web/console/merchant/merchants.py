"""Merchants of a partner, and their destinations."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import account_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.site import ConsoleRequest

PATH = "/console/merchants"
MERCHANT_PATH = "/console/merchants/{merchant_id}"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the merchants."""
    query = console_request.query
    request = account_pb2.ListMerchantsRequest(
        search=query.get("search") or None, cursor=query.get("cursor") or None
    )
    response = await console_request.call("AdminService.ListMerchants", request)
    return console_request.render_page(
        "merchant/merchants", "Merchants", response=response, search=query.get("search", "")
    )


async def show_merchant(console_request: ConsoleRequest) -> PlainResponse:
    """Show a merchant with its destinations."""
    request = account_pb2.GetMerchantRequest(
        merchant_id=console_request.get_path_variable("merchant_id")
    )
    merchant = (await console_request.call("AdminService.GetMerchant", request)).merchant
    assets = console_request.console.app.list_assets(live=console_request.session.live).values()
    return console_request.render_page(
        "merchant/merchant",
        f"Merchant {console_request.console.formatter.short(merchant.merchant.id)}",
        merchant=merchant.merchant,
        settlements=merchant.settlements,
        assets={asset.id: f"{asset.symbol} on {asset.network_name}" for _, asset in assets},
        path=_get_page_path(console_request),
    )


async def add(console_request: ConsoleRequest) -> PlainResponse:
    """Add a destination for an asset."""
    request = account_pb2.CreateCryptoSettlementsRequest(
        merchant_id=console_request.get_path_variable("merchant_id"),
        settlements=[
            account_pb2.NewCryptoSettlement(
                asset=console_request.form.text("asset"),
                destination=console_request.form.text("destination"),
            )
        ],
    )
    key = console_request.form.text("form")
    await console_request.call("AdminService.CreateCryptoSettlements", request, key=key)
    return console_request.redirect_to(_get_page_path(console_request))


async def change(console_request: ConsoleRequest) -> PlainResponse:
    """Change a destination."""
    request = account_pb2.UpdateCryptoSettlementRequest(
        merchant_id=console_request.get_path_variable("merchant_id"),
        id=console_request.get_path_variable("settlement_id"),
        destination=console_request.form.text("destination"),
    )
    key = console_request.form.text("form")
    await console_request.call("AdminService.UpdateCryptoSettlement", request, key=key)
    return console_request.redirect_to(_get_page_path(console_request))


async def remove(console_request: ConsoleRequest) -> PlainResponse:
    """Remove a destination."""
    request = account_pb2.DeleteCryptoSettlementRequest(
        merchant_id=console_request.get_path_variable("merchant_id"),
        id=console_request.get_path_variable("settlement_id"),
    )
    key = console_request.form.text("form")
    await console_request.call("AdminService.DeleteCryptoSettlement", request, key=key)
    return console_request.redirect_to(_get_page_path(console_request))


def _get_page_path(console_request: ConsoleRequest) -> str:
    return MERCHANT_PATH.format(
        merchant_id=quote(console_request.get_path_variable("merchant_id"), "")
    )
