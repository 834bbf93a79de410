"""What stands above a list of payments: tabs of statuses, filters as chips, and sort links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from florin.v1 import listing_pb2

from florin_server.api.payments.listing_codec import parse_list_query
from florin_server.domain.accounts.caller import Caller
from florin_server.money.payments.service import lists
from florin_server.web.console.listing import PaymentFilters
from florin_server.web.console.pills import list_payment_pills
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.language import Translations

# the statuses of each tab; the first has all. "tab." and the name is the key of its message
TABS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (),
    "paid": ("succeeded",),
    "open": ("requires_action", "processing"),
    "not_paid": ("failed", "expired", "cancelled"),
}
# filters whose chips name them, with "chip." as the key, and those whose values suffice
NAMED_CHIPS: Final = ("from", "to", "reference", "merchant")
_CHIPS: Final = (*NAMED_CHIPS, "token", "network")


@dataclass(frozen=True, slots=True)
class StatusTab:
    """A tab; `count` is None where the number of its payments is unknown."""

    name: str
    address: str
    current: bool
    count: int | None


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A filter that is on; `address` is the list without it."""

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class SortLink:
    """The link of a heading; `order` is how the list is sorted by it now, empty if it is not."""

    address: str
    order: str


def build_controls(
    texts: Translations,
    filters: PaymentFilters,
    counts: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the values of the template for a list; `counts` as in `list_tabs`."""
    return {
        "tabs": list_tabs(texts, filters, counts),
        "chips": list_chips(texts, filters),
        "sorts": list_sort_links(filters),
        "pills": list_payment_pills(texts),
    }


async def count_statuses(
    console_request: ConsoleRequest,
    partner_id: str | None,
    request: listing_pb2.ListPaymentsRequest,
    *,
    live: bool,
) -> dict[str, int] | None:
    """Return the payments of each status that pass the other filters; None if too many do."""
    if not partner_id:
        return None
    counts = await lists.count_statuses(
        console_request.console.app,
        Caller(live=live, partner_id=partner_id),
        parse_list_query(request),
        request.merchant_id,
    )
    return None if counts is None else {status.value: count for status, count in counts.items()}


def list_tabs(
    texts: Translations, filters: PaymentFilters, counts: Mapping[str, int] | None = None
) -> list[StatusTab]:
    """Return the tabs; `counts` are the payments of each status that pass the other filters."""
    chosen = set(filters.query.texts("status"))
    return [
        StatusTab(
            name=texts.plain(f"tab.{name}"),
            address=_build_address(filters, "status", statuses),
            current=chosen == set(statuses),
            count=None
            if counts is None
            else sum(counts.get(status, 0) for status in statuses or counts),
        )
        for name, statuses in TABS.items()
    ]


def list_chips(texts: Translations, filters: PaymentFilters) -> list[FilterChip]:
    """Return the filters that are on, besides the status."""
    chips = []
    for name in _CHIPS:
        value = ", ".join(filters.query.texts(name)).replace("T", " ")
        if value:
            text = texts.plain(f"chip.{name}", value=value) if name in NAMED_CHIPS else value
            chips.append(FilterChip(text, _build_address(filters, name, ())))
    return chips


def list_sort_links(filters: PaymentFilters) -> dict[str, SortLink]:
    """Return the links by which the list can be sorted, by the name of the column."""
    column = filters.query.text("sort") or "date"
    ascending = filters.query.text("dir") == "asc"
    links = {}
    for name in ("amount", "date"):
        is_current = name == column
        direction = "asc" if is_current and not ascending else ""
        address = filters.address(cursor="", sort="" if name == "date" else name, dir=direction)
        order = ("ascending" if ascending else "descending") if is_current else ""
        links[name] = SortLink(address, order)
    return links


def _build_address(filters: PaymentFilters, name: str, values: tuple[str, ...]) -> str:
    """Return the query of the first page with other values of a filter."""
    query = filters.address(cursor="", **{name: ""})
    added = urlencode([(name, value) for value in values])
    return "&".join(part for part in (query, added) if part)
