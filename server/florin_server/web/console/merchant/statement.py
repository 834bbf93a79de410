"""The statement of a month: a page to read and print, and its CSV file."""

from __future__ import annotations

import csv
import io
from typing import Final
from urllib.parse import urlencode

from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.reports.period import (
    ReportPeriod,
    get_month,
    get_previous_month,
    parse_period,
)
from florin_server.features.reports.service.partner_statement import (
    PartnerStatement,
    get_statement,
)
from florin_server.features.reports.service.statement import list_csv_rows
from florin_server.money.payments.service.search import find_partner_id
from florin_server.web.console.merchant.payments import list_merchants
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.handlers import NOSNIFF

PATH: Final = "/console/statement"
# suggestions; every name of the time zone database is accepted
_ZONES: Final = (
    *("UTC", "Africa/Johannesburg", "Africa/Lagos", "America/Chicago", "America/Los_Angeles"),
    *("America/New_York", "America/Sao_Paulo", "Asia/Dubai", "Asia/Kolkata", "Asia/Shanghai"),
    *("Asia/Singapore", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London"),
)
_ZONE_CHARS: Final = 100


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the statement of a month; without one, of the month before."""
    query = console_request.query
    now_us = console_request.console.app.clock.now_us()
    month = query.get("month") or get_previous_month(now_us)
    # the request of the list also counts against the key's rate limit
    merchants = await list_merchants(console_request)
    period = _parse_period(month, query.get("zone") or "UTC")
    result = await _read(console_request, period)
    address = {"month": month, "zone": period.zone, "merchant": query.get("merchant", "")}
    return console_request.render_page(
        "merchant/statement",
        console_request.texts.plain("nav.statement"),
        statement=result.statement,
        merchant=result.merchant,
        merchants=merchants,
        zones=_ZONES,
        latest=get_month(now_us),
        csv_path=f"{PATH}/export?{urlencode({k: v for k, v in address.items() if v})}",
        path=PATH,
    )


async def download_csv(console_request: ConsoleRequest) -> PlainResponse:
    """Return the statement as a CSV file."""
    query = console_request.query
    await list_merchants(console_request)
    period = _parse_period(query.get("month", ""), query.get("zone") or "UTC")
    result = await _read(console_request, period)
    merchant = result.merchant
    named = ("", "") if merchant is None else (merchant.id, merchant.name)
    buffer = io.StringIO()
    csv.writer(buffer).writerows(list_csv_rows(result.statement, named))
    disposition = f'attachment; filename="statement-{period.name}.csv"'
    headers = ((b"content-disposition", disposition.encode()), NOSNIFF)
    return PlainResponse(200, buffer.getvalue().encode(), "text/csv; charset=utf-8", headers)


async def _read(console_request: ConsoleRequest, period: ReportPeriod) -> PartnerStatement:
    app, session = console_request.console.app, console_request.session
    partner_id = await find_partner_id(app, session.holder)
    if partner_id is None:
        raise ApiError(ErrorCode.FORBIDDEN)
    merchant_id = console_request.query.get("merchant", "")
    return await get_statement(app, partner_id, period, merchant_id, live=session.live)


def _parse_period(month: str, zone: str) -> ReportPeriod:
    try:
        return parse_period(month, zone[:_ZONE_CHARS])
    except ValueError as error:
        field = "zone" if "zone" in str(error) else "month"
        raise ConsoleError(400, f"fault.statement_{field}") from error
