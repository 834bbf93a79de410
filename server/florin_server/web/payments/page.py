"""The page behind a payment link: what is asked for, by whom, and where it stands.

Plain HTML without scripts or foreign content. A wallet needs the link only, not the page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from florin_gateway.plain import PlainAnswer

from florin_server.web.render import guarded, hashed, html

_HEADERS = guarded(
    f"default-src 'none'; style-src {hashed('payments/page.css')}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """What the page tells. `amount` is as people write it, e.g. "12.50 USD".

    `back` is where the merchant wants its buyer now: an absolute https URL.
    """

    merchant: str
    amount: str
    status: str
    link: str
    live: bool
    back: str | None = None


def page(checkout: Checkout) -> PlainAnswer:
    """The page of a payment."""
    return html("payments/checkout.html", 200, _HEADERS, told=checkout)


def unknown() -> PlainAnswer:
    """The page of a link that names no payment."""
    return _notice(404, "Payment not found", "There is no such payment.")


def too_many(wait_s: int) -> PlainAnswer:
    """The page for an address that asked for too many; another one comes after so many seconds."""
    answer = _notice(429, "Too many requests", "Too many requests. Please wait a moment.")
    return replace(answer, headers=(*answer.headers, (b"retry-after", b"%d" % wait_s)))


def _notice(status: int, title: str, text: str) -> PlainAnswer:
    return html("payments/notice.html", status, _HEADERS, title=title, text=text)
