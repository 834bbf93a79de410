"""Options that wallets and shops add to a payment link: the way back, the form of wallet links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from florin_server.domain.payments.payment import Payment
from florin_server.domain.payments.return_links import ReturnLink, ReturnPolicy, find_return_link
from florin_server.domain.urls import URL_CHARS_MAX
from florin_server.settings.checkout import CheckoutSettings

_RETURN_URL: Final = "returnUrl"
_UNIVERSAL: Final = "preferUniversalLinks"


@dataclass(frozen=True, slots=True)
class ReturnOptions:
    """The options in a page's address; `url` is empty without any, and not checked yet."""

    url: str = ""
    prefers_universal_links: bool = False

    def to_parameters(self) -> dict[str, str]:
        """Return the query parameters that keep the options that are set."""
        universal = {_UNIVERSAL: "1"} if self.prefers_universal_links else {}
        return ({_RETURN_URL: self.url} if self.url else {}) | universal


def parse_return_options(query: Iterable[tuple[str, str]]) -> ReturnOptions:
    """Return the options of a query; an option that is given twice counts as missing."""
    values: dict[str, list[str]] = {_RETURN_URL: [], _UNIVERSAL: []}
    for name, value in query:
        if name in values:
            values[name].append(value)
    urls, universal = values[_RETURN_URL], values[_UNIVERSAL]
    url = urls[0] if len(urls) == 1 and len(urls[0]) <= URL_CHARS_MAX else ""
    return ReturnOptions(url, universal == ["1"])


def find_payment_return_link(
    settings: CheckoutSettings, payment: Payment, url: str
) -> ReturnLink | None:
    """Return the link back from a payment that ended; None before, or if it is not allowed."""
    if not payment.status.is_final or not url:
        return None
    policy = ReturnPolicy(
        schemes=settings.return_schemes,
        targets=settings.return_targets.get(payment.merchant_id),
        own_urls=[own for own in (payment.success_url, payment.error_url) if own],
    )
    return find_return_link(url, payment.id, policy)
