"""Merchants of a partner, and where they want their money."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import account_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.site import Visit

PATH = "/console/merchants"
ONE = "/console/merchants/{merchant_id}"


async def show(visit: Visit) -> PlainAnswer:
    """The merchants."""
    query = visit.query
    request = account_pb2.ListMerchantsRequest(
        search=query.get("search") or None, cursor=query.get("cursor") or None
    )
    found = await visit.ask("AdminService.ListMerchants", request)
    return visit.page(
        "merchant/merchants", "Merchants", found=found, search=query.get("search", "")
    )


async def one(visit: Visit) -> PlainAnswer:
    """A merchant with its destinations."""
    request = account_pb2.GetMerchantRequest(merchant_id=visit.path("merchant_id"))
    found = (await visit.ask("AdminService.GetMerchant", request)).merchant
    assets = visit.site.app.assets(live=visit.session.live).values()
    return visit.page(
        "merchant/merchant",
        f"Merchant {visit.site.show.short(found.merchant.id)}",
        merchant=found.merchant,
        settlements=found.settlements,
        assets={asset.id: f"{asset.symbol} on {asset.network_name}" for _, asset in assets},
        path=_path(visit),
    )


async def add(visit: Visit) -> PlainAnswer:
    """Names where an asset goes."""
    request = account_pb2.CreateCryptoSettlementsRequest(
        merchant_id=visit.path("merchant_id"),
        settlements=[
            account_pb2.NewCryptoSettlement(
                asset=visit.form.text("asset"), destination=visit.form.text("destination")
            )
        ],
    )
    key = visit.form.text("form")
    await visit.ask("AdminService.CreateCryptoSettlements", request, key=key)
    return visit.see(_path(visit))


async def change(visit: Visit) -> PlainAnswer:
    """Names another destination."""
    request = account_pb2.UpdateCryptoSettlementRequest(
        merchant_id=visit.path("merchant_id"),
        id=visit.path("settlement_id"),
        destination=visit.form.text("destination"),
    )
    key = visit.form.text("form")
    await visit.ask("AdminService.UpdateCryptoSettlement", request, key=key)
    return visit.see(_path(visit))


async def remove(visit: Visit) -> PlainAnswer:
    """Takes a destination away."""
    request = account_pb2.DeleteCryptoSettlementRequest(
        merchant_id=visit.path("merchant_id"), id=visit.path("settlement_id")
    )
    key = visit.form.text("form")
    await visit.ask("AdminService.DeleteCryptoSettlement", request, key=key)
    return visit.see(_path(visit))


def _path(visit: Visit) -> str:
    return ONE.format(merchant_id=quote(visit.path("merchant_id"), ""))
