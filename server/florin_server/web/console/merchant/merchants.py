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
        "merchant/merchants",
        console_request.texts.plain("nav.merchants"),
        response=response,
        search=query.get("search", ""),
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
        console_request.texts.plain(
            "merchant.title", id=console_request.formatter.short(merchant.merchant.id)
        ),
        merchant=merchant.merchant,
        settlements=merchant.settlements,
        assets={
            asset.id: console_request.formatter.token_name(asset.symbol, asset.network_name)
            for _, asset in assets
        },
        path=_get_page_path(console_request),
    )


async def confirm_add(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is added; the merchant's name has to be typed."""
    form, texts = console_request.form, console_request.texts
    return await _confirm(
        console_request,
        "destination.add",
        (
            (texts.plain("asset"), form.text("asset")),
            (texts.plain("destination.new"), form.text("destination")),
        ),
    )


async def confirm_change(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is changed; the merchant's name has to be typed."""
    return await _confirm(
        console_request,
        "destination.change",
        (
            (
                console_request.texts.plain("destination.new"),
                console_request.form.text("destination"),
            ),
        ),
    )


async def confirm_remove(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a destination is removed; the merchant's name has to be typed."""
    return await _confirm(console_request, "destination.remove", ())


async def _confirm(
    console_request: ConsoleRequest,
    key: str,
    facts: Sequence[tuple[str, str]],
) -> ActionConfirmation:
    """Return the question of an action; `key` begins the keys of its messages."""
    texts = console_request.texts
    request = account_pb2.GetMerchantRequest(
        merchant_id=console_request.get_path_variable("merchant_id")
    )
    details = (await console_request.call("AdminService.GetMerchant", request)).merchant
    settlement_id = console_request.request.variables.get("settlement_id", "")
    current = [
        (
            (texts.plain("asset"), settlement.asset),
            (texts.plain("destination.current"), settlement.destination),
        )
        for settlement in details.settlements.crypto
        if settlement.id == settlement_id
    ]
    return ActionConfirmation(
        title=texts.plain(f"{key}.ask"),
        button=texts.plain(f"{key}.button"),
        back=_get_page_path(console_request),
        facts=(
            (texts.plain("merchant"), details.merchant.name),
            *(current[0] if current else ()),
            *facts,
        ),
        warning=texts.plain(f"{key}.warning"),
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
