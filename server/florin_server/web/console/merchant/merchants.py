"""Merchants of a partner, and their destinations."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from florin.v1 import account_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
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


async def confirm_add(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is added; the merchant's name has to be typed."""
    form = console_request.form
    return await _confirm(
        console_request,
        "Add this destination?",
        "Add destination",
        (("Asset", form.text("asset")), ("New destination", form.text("destination"))),
        "From now on the merchant's money in this asset goes there, at once and for good.",
    )


async def confirm_change(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is changed; the merchant's name has to be typed."""
    return await _confirm(
        console_request,
        "Change this destination?",
        "Change destination",
        (("New destination", console_request.form.text("destination")),),
        "From now on the merchant's money in this asset goes to the new account.",
    )


async def confirm_remove(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is removed; the merchant's name has to be typed."""
    return await _confirm(
        console_request,
        "Remove this destination?",
        "Remove destination",
        (),
        "The operator then keeps the merchant's money in this asset and owes it.",
    )


async def _confirm(
    console_request: ConsoleRequest,
    title: str,
    button: str,
    facts: Sequence[tuple[str, str]],
    warning: str,
) -> ActionConfirmation:
    request = account_pb2.GetMerchantRequest(
        merchant_id=console_request.get_path_variable("merchant_id")
    )
    details = (await console_request.call("AdminService.GetMerchant", request)).merchant
    settlement_id = console_request.request.variables.get("settlement_id", "")
    current = [
        (("Asset", settlement.asset), ("Current destination", settlement.destination))
        for settlement in details.settlements.crypto
        if settlement.id == settlement_id
    ]
    return ActionConfirmation(
        title=title,
        button=button,
        back=_get_page_path(console_request),
        facts=(("Merchant", details.merchant.name), *(current[0] if current else ()), *facts),
        warning=warning,
        typed=details.merchant.name,
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
