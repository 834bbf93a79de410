"""The page behind a payment link: what is asked for, by whom, and where it stands.

Plain HTML without scripts or foreign content. A wallet needs the link only, not the page.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from html import escape
from string import Template

from florin_gateway.plain import PlainAnswer

_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5; }
body { margin: 0 auto; max-width: 28rem; padding: 2rem 1rem; }
h1 { font-size: 1.1rem; font-weight: 600; margin: 0; }
.amount { font-size: 2.2rem; font-weight: 700; margin: 0 0 1rem; }
.status { border: 1px solid; border-radius: .5rem; padding: .75rem 1rem; }
code { overflow-wrap: anywhere; }
a { display: inline-block; padding: .6rem 0; }
"""
_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$content
</main>
</body>
</html>
""")
_PAYMENT = Template("""<h1><bdi>$merchant</bdi></h1>
<p class="amount">$amount</p>
<p class="status" role="status">$status</p>
$back$link<p><a href="">Check the status again</a></p>
$mode""")
_LINK = Template("""<p>To pay, open this link in your wallet:</p>
<p><code>$link</code></p>
""")
_BACK = Template("""<p><a href="$back" rel="noreferrer">Back to <bdi>$merchant</bdi></a></p>
""")
_STATUS = {
    "requires_action": "Waiting for your wallet.",
    "processing": "Your payment is on its way.",
    "succeeded": "Paid. Thank you.",
    "failed": "This payment failed. Nothing was taken from you.",
    "expired": "The time to pay is over.",
    "cancelled": "This payment was called off.",
}
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = (
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'".encode(),
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
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
    payable = checkout.status == "requires_action"
    merchant = escape(checkout.merchant)
    back = _BACK.substitute(back=escape(checkout.back), merchant=merchant) if checkout.back else ""
    content = _PAYMENT.substitute(
        merchant=merchant,
        back=back,
        amount=escape(checkout.amount),
        status=_STATUS[checkout.status],
        link=_LINK.substitute(link=escape(checkout.link)) if payable else "",
        mode="" if checkout.live else "<p>Test payment: no real money moves.</p>",
    )
    return _html(f"{checkout.amount} to {checkout.merchant}", content, 200)


def unknown() -> PlainAnswer:
    """The page of a link that names no payment."""
    return _html("Payment not found", "<h1>There is no such payment.</h1>", 404)


def too_many(wait_s: int) -> PlainAnswer:
    """The page for an address that asked for too many; another one comes after so many seconds."""
    answer = _html("Too many requests", "<h1>Too many requests. Please wait a moment.</h1>", 429)
    return replace(answer, headers=(*answer.headers, (b"retry-after", b"%d" % wait_s)))


def _html(title: str, content: str, status: int) -> PlainAnswer:
    text = _PAGE.substitute(title=escape(title), style=_STYLE, content=content)
    return PlainAnswer(status, text.encode(), "text/html; charset=utf-8", _HEADERS)
