"""The merchants' table of payments, and the same as a file."""

from __future__ import annotations

from florin.v1 import account_pb2, listing_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.listing import (
    FILE_ROWS_MAX,
    ROWS_MAX,
    Asked,
    choices,
    live_rows,
    table,
)
from florin_server.web.console.site import Visit

PATH = "/console/payments"
_LIST = "MerchantService.ListPayments"
_MERCHANTS_SHOWN = 100


async def show(visit: Visit) -> PlainAnswer:
    """A page of the table."""
    asked = Asked.of(visit)
    found = await visit.ask(_LIST, asked.request())
    return visit.page(
        "payments",
        "Payments",
        asked=asked,
        found=found,
        merchants=await merchants(visit),
        partners=(),
        choices=choices(visit, live=visit.session.live),
        path=PATH,
    )


async def rows(visit: Visit) -> PlainAnswer:
    """Where the payments of the page stand now, for its script."""
    found = await visit.ask(_LIST, Asked.of(visit).request())
    return PlainAnswer.json(live_rows(visit.site.show, found.data))


async def file(visit: Visit) -> PlainAnswer:
    """The same list as a file, page by page of the API."""
    asked = Asked.of(visit).request(ROWS_MAX)
    asked.ClearField("cursor")
    return table(visit.site.show, await newest(visit, asked, FILE_ROWS_MAX))


async def newest(
    visit: Visit, asked: listing_pb2.ListPaymentsRequest, most: int
) -> list[listing_pb2.PaymentRow]:
    """The first rows of a list, so many at most."""
    found: list[listing_pb2.PaymentRow] = []
    while True:
        page = await visit.ask(_LIST, asked)
        found += page.data
        if not page.next_cursor or len(found) >= most:
            return found[:most]
        asked.cursor = page.next_cursor


async def merchants(visit: Visit) -> list[account_pb2.MerchantRecord]:
    """Merchants to choose from, newest first: those beyond a page are named by their id."""
    request = account_pb2.ListMerchantsRequest(limit=_MERCHANTS_SHOWN)
    found = await visit.ask("AdminService.ListMerchants", request)
    return list(found.merchants)
