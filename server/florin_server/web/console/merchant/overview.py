"""The first page of a merchant: charts of the newest payments."""

from __future__ import annotations

from florin.v1 import listing_pb2
from florin_gateway.plain import PlainAnswer
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.flows.payments.lists import phases_of
from florin_server.web.console.charts import HEIGHT, WIDTH, charts, totals
from florin_server.web.console.listing import ROWS_MAX
from florin_server.web.console.merchant.payments import newest
from florin_server.web.console.site import Visit

# five answers of the API
_ROWS_MAX = 1_000
_DAYS = {"7": 7, "30": 30}
_DAY_S = 86_400


async def show(visit: Visit) -> PlainAnswer:
    """The page."""
    days = _DAYS.get(visit.query.get("days", ""), 7)
    now_us = visit.site.app.clock.now_us()
    today_s = now_us // 1_000_000 // _DAY_S * _DAY_S
    since = Timestamp(seconds=today_s - (days - 1) * _DAY_S)
    asked = listing_pb2.ListPaymentsRequest(start_ts=since, limit=ROWS_MAX)
    rows = await newest(visit, asked, _ROWS_MAX)
    phases = await phases_of(visit.site.app, [row.payment_id for row in rows])
    return visit.page(
        "merchant/overview",
        "Overview",
        charts=charts(rows, phases, now_us, days),
        totals=totals(rows, now_us, days),
        count=len(rows),
        all_shown=len(rows) < _ROWS_MAX,
        days=days,
        spans=tuple(_DAYS.values()),
        width=WIDTH,
        height=HEIGHT,
    )
