"""The first page of the merchant console: figures and charts of the newest payments."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import listing_pb2, webhook_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.money.payments.service.lists import get_phases
from florin_server.web.console.charts import (
    BASE,
    HEIGHT,
    VOLUME,
    UnitTotal,
    build_time_charts,
    build_volume_chart,
    compute_totals,
)
from florin_server.web.console.figures import (
    build_key_figures,
    list_outcomes,
    list_token_shares,
)
from florin_server.web.console.listing import ROWS_MAX
from florin_server.web.console.merchant.payments import list_first_rows
from florin_server.web.console.shell import parse_merchant
from florin_server.web.console.site import ConsoleRequest

# five answers of the API
_ROWS_MAX = 1_000
_DAYS = {"7": 7, "30": 30}
_DAY_S = 86_400
_RECENT_ROWS = 6
_TOKENS_SHOWN = 5


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the figures, in the unit of the query or in the one that most payments have."""
    days = _DAYS.get(console_request.query.get("days", ""), 7)
    now_us = console_request.console.app.clock.now_us()
    today_s = now_us // 1_000_000 // _DAY_S * _DAY_S
    since_s = today_s - (days - 1) * _DAY_S
    rows = await _list_rows(console_request, since_s, None)
    # as long a time before, up to the same time of day
    previous = await _list_rows(
        console_request, since_s - days * _DAY_S, now_us // 1_000_000 - days * _DAY_S
    )
    all_shown = len(rows) < _ROWS_MAX
    phases = await get_phases(console_request.console.app, [row.payment_id for row in rows])
    texts = console_request.texts
    totals = compute_totals(texts, rows, now_us, days)
    volume = _choose_unit(totals, console_request.query.get("unit", ""))
    return console_request.render_page(
        "merchant/overview",
        texts.plain("nav.overview"),
        figures=build_key_figures(
            texts,
            rows,
            previous if all_shown and len(previous) < _ROWS_MAX else None,
            phases,
            volume,
        ),
        volume=build_volume_chart(texts, rows, now_us, days, volume.key if volume else ""),
        unit=volume.key if volume else "",
        times=build_time_charts(texts, rows, phases, now_us, days),
        outcomes=list_outcomes(texts, rows),
        tokens=list_token_shares(texts, rows, _TOKENS_SHOWN),
        totals=totals,
        todo=await _list_failing_endpoints(console_request),
        recent=rows[:_RECENT_ROWS],
        count=len(rows),
        all_shown=all_shown,
        days=days,
        spans=tuple(_DAYS.values()),
        height=HEIGHT,
        base=BASE,
    )


async def _list_rows(
    console_request: ConsoleRequest, start_s: int, end_s: int | None
) -> list[listing_pb2.PaymentRow]:
    merchant = parse_merchant(console_request.query)
    request = listing_pb2.ListPaymentsRequest(
        merchant_id=[merchant] if merchant else [],
        start_ts=Timestamp(seconds=start_s),
        end_ts=None if end_s is None else Timestamp(seconds=end_s),
        limit=ROWS_MAX,
    )
    return await list_first_rows(console_request, request, _ROWS_MAX)


def _choose_unit(totals: Sequence[UnitTotal], key: str) -> UnitTotal | None:
    """Return the volume in the chosen unit, else in the most used one; None without any."""
    volumes = [total for total in totals if total.figure == VOLUME]
    return next((total for total in volumes if total.key == key), volumes[0] if volumes else None)


async def _list_failing_endpoints(
    console_request: ConsoleRequest,
) -> list[webhook_pb2.WebhookEndpoint]:
    """Return the endpoints that fail or are paused; none for a key that must not see them."""
    try:
        response = await console_request.call(
            "WebhookService.ListWebhookEndpoints", webhook_pb2.ListWebhookEndpointsRequest()
        )
    except RefusedError as refused:
        if refused.status in {403, 429}:
            return []
        raise
    paused = webhook_pb2.WEBHOOK_ENDPOINT_STATUS_PAUSED
    return [
        endpoint
        for endpoint in response.endpoints
        if endpoint.failures or endpoint.status == paused
    ]
