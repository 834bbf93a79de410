"""The page with which a buyer prints a receipt, or downloads it; it needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from florin_gateway.plain import PlainAnswer

from florin_server.web.language import Words, words
from florin_server.web.render import html, strict

_NOUN: Final = "receipts"
_TEMPLATE: Final = "receipts/receipt.html"
_HEADERS: Final = (*strict(), (b"vary", b"accept-language"))


@dataclass(frozen=True, slots=True)
class Summary:
    """What everybody with the payment's link is told; `at_s` is when it succeeded."""

    merchant: str
    value: Decimal
    symbol: str
    payment_id: str
    at_s: int
    live: bool
    path: str


@dataclass(frozen=True, slots=True)
class Details:
    """What only somebody is told who knows the account: rows by what they are, and the account.

    A value is a text, a time in Unix seconds, or an amount with its symbol.
    """

    rows: Sequence[tuple[str, str | int | tuple[Decimal, str]]]
    account: str


@dataclass(frozen=True, slots=True)
class _Told:
    """The same as the page writes it."""

    merchant: str
    amount: str
    payment_id: str
    at: str
    live: bool
    path: str


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: Sequence[tuple[str, str]]
    account: str


def whole(told: Summary, details: Details, language: str) -> PlainAnswer:
    """The page with all that the receipt says."""
    said = words(language, _NOUN)
    rows = [(name, _spelled(value, said)) for name, value in details.rows]
    return _page(told, said, details=_Rows(rows, details.account))


def short(told: Summary, account: str, language: str, *, problem: bool = False) -> PlainAnswer:
    """The page that asks for the account; another one was given if `account` is not empty.

    `problem` is true if there is no receipt, for who gave the right one.
    """
    said = words(language, _NOUN)
    return _page(told, said, wrong=bool(account) and not problem, problem=problem)


def none_yet(link: str, language: str) -> PlainAnswer:
    """The page of a payment that has not succeeded."""
    return html("receipts/none.html", 404, _HEADERS, link=link, words=words(language, _NOUN))


def _page(
    told: Summary,
    said: Words,
    *,
    details: _Rows | None = None,
    wrong: bool = False,
    problem: bool = False,
) -> PlainAnswer:
    shown = _Told(
        merchant=told.merchant,
        amount=said.amount(told.value, told.symbol),
        payment_id=told.payment_id,
        at=said.time(told.at_s),
        live=told.live,
        path=told.path,
    )
    return html(
        _TEMPLATE,
        200,
        _HEADERS,
        told=shown,
        details=details,
        wrong=wrong,
        problem=problem,
        words=said,
        here=told.path,
    )


def _spelled(value: str | int | tuple[Decimal, str], said: Words) -> str:
    if isinstance(value, int):
        return said.time(value)
    return value if isinstance(value, str) else said.amount(*value)
