"""The first page of the merchant console: charts of the newest payments."""

from __future__ import annotations

from florin.v1 import listing_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_rest_gateway.plain import PlainResponse

from florin_server.money.payments.service.lists import get_phases
from florin_server.web.console.charts import (
    HEIGHT,
    WIDTH,
    build_charts,
    compute_totals,
)
from florin_server.web.console.listing import ROWS_MAX
from florin_server.web.console.merchant.payments import list_first_rows
from florin_server.web.console.site import ConsoleRequest

# five answers of the API
_ROWS_MAX = 1_000
_DAYS = {"7": 7, "30": 30}
_DAY_S = 86_400


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the charts."""
    days = _DAYS.get(console_request.query.get("days", ""), 7)
    now_us = console_request.console.app.clock.now_us()
    today_s = now_us // 1_000_000 // _DAY_S * _DAY_S
    since = Timestamp(seconds=today_s - (days - 1) * _DAY_S)
    request = listing_pb2.ListPaymentsRequest(start_ts=since, limit=ROWS_MAX)
    rows = await list_first_rows(console_request, request, _ROWS_MAX)
    phases = await get_phases(console_request.console.app, [row.payment_id for row in rows])
    return console_request.render_page(
        "merchant/overview",
        "Overview",
        charts=build_charts(rows, phases, now_us, days),
        totals=compute_totals(rows, now_us, days),
        count=len(rows),
        all_shown=len(rows) < _ROWS_MAX,
        days=days,
        spans=tuple(_DAYS.values()),
        width=WIDTH,
        height=HEIGHT,
    )
