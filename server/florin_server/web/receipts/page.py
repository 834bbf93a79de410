"""The page with which a buyer prints a receipt, or downloads it.

Plain HTML without scripts or foreign content, as the page of the payment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_gateway.plain import PlainAnswer

from florin_server.web.render import guarded, hashed, html

_HEADERS = guarded(
    f"default-src 'none'; style-src {hashed('receipts/page.css')}; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_TEMPLATE = "receipts/receipt.html"


@dataclass(frozen=True, slots=True)
class Summary:
    """What everybody with the payment's link is told, as people write it."""

    merchant: str
    amount: str
    payment_id: str
    at: str
    live: bool
    path: str


@dataclass(frozen=True, slots=True)
class Details:
    """What only somebody is told who knows the account: names and values, and the account."""

    rows: Sequence[tuple[str, str]]
    account: str


def whole(told: Summary, details: Details) -> PlainAnswer:
    """The page with all that the receipt says."""
    return html(_TEMPLATE, 200, _HEADERS, told=told, details=details, wrong=False, problem="")


def short(told: Summary, account: str, problem: str = "") -> PlainAnswer:
    """The page that asks for the account; another one was given if `account` is not empty.

    `problem` says why there is no receipt, to who gave the right one.
    """
    wrong = bool(account) and not problem
    return html(_TEMPLATE, 200, _HEADERS, told=told, details=None, wrong=wrong, problem=problem)


def none_yet(link: str) -> PlainAnswer:
    """The page of a payment that has not succeeded."""
    return html("receipts/none.html", 404, _HEADERS, link=link)
