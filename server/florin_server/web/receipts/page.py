"""The page on which a buyer prints or downloads a receipt; it works without its script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.language import Translations, get_translations, trim_zeros
from florin_server.web.render import build_security_headers, render_page

_NOUN: Final = "receipt"
_TEMPLATE: Final = "receipts/receipt.html"
# longer values, such as hashes, get a line of their own on phones
_SHORT_CHARS_MAX: Final = 24
_HEADERS: Final = (*build_security_headers(), (b"vary", b"accept-language"))


@dataclass(frozen=True, slots=True)
class ReceiptSummary:
    """The part of a receipt for anyone with the payment link; `at_s` is when it succeeded."""

    merchant: str
    value: Decimal
    symbol: str
    payment_id: str
    at_s: int
    live: bool
    path: str


@dataclass(frozen=True, slots=True)
class RefundLine:
    """A refund on a receipt: amount, symbol, status, end in Unix seconds, and transaction."""

    value: Decimal
    symbol: str
    status: str
    at_s: int | None = None
    transaction: str | None = None


# a text, a time in Unix seconds, an amount with its symbol, or a refund
RowValue: TypeAlias = str | int | tuple[Decimal, str] | RefundLine


@dataclass(frozen=True, slots=True)
class ReceiptDetails:
    """The part of a receipt for those who name the paying account: rows, and the account.

    Each row has the name of its message and a value.
    """

    rows: Sequence[tuple[str, RowValue]]
    account: str


@dataclass(frozen=True, slots=True)
class _ReceiptContext:
    """The summary as the page shows it."""

    merchant: str
    number: str
    symbol: str
    amount: str
    payment_id: str
    at: str
    at_iso: str
    live: bool
    path: str


class _Row(NamedTuple):
    """A row of the receipt: the name of its message, its value, and its time if it is one.

    A long value, such as a hash, gets a line of its own where there is little room.
    """

    name: str
    value: str
    at_iso: str = ""
    is_long: bool = False
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class _DetailRows:
    rows: Sequence[_Row]
    account: str


def render_receipt(
    summary: ReceiptSummary, details: ReceiptDetails, language: str
) -> PlainResponse:
    """Return the page with the whole receipt."""
    translations = get_translations(language, _NOUN)
    rows = [_to_row(name, value, translations) for name, value in details.rows]
    return _render_page(summary, translations, details=_DetailRows(rows, details.account))


def render_account_form(
    summary: ReceiptSummary, account: str, language: str, *, problem: bool = False
) -> PlainResponse:
    """Return the page that asks for the account; a wrong one if `account` is not empty.

    `problem` is True if the account was right and the receipt is not available.
    """
    translations = get_translations(language, _NOUN)
    return _render_page(
        summary, translations, is_wrong_account=bool(account) and not problem, problem=problem
    )


def render_not_succeeded(link: str, language: str) -> PlainResponse:
    """Return the page of a payment that has not succeeded."""
    return render_page(
        "receipts/none.html", 404, _HEADERS, link=link, texts=get_translations(language, _NOUN)
    )


def _render_page(
    summary: ReceiptSummary,
    translations: Translations,
    *,
    details: _DetailRows | None = None,
    is_wrong_account: bool = False,
    problem: bool = False,
) -> PlainResponse:
    receipt = _ReceiptContext(
        merchant=summary.merchant,
        number=translations.format_number(summary.value),
        symbol=summary.symbol,
        amount=translations.format_amount(summary.value, summary.symbol),
        payment_id=summary.payment_id,
        at=translations.format_time(summary.at_s),
        at_iso=_to_iso_time(summary.at_s),
        live=summary.live,
        path=summary.path,
    )
    return render_page(
        _TEMPLATE,
        200,
        _HEADERS,
        receipt=receipt,
        details=details,
        wrong=is_wrong_account,
        problem=problem,
        texts=translations,
        here=summary.path,
    )


def _to_row(name: str, value: RowValue, translations: Translations) -> _Row:
    if isinstance(value, int):
        return _Row(name, translations.format_time(value), at_iso=_to_iso_time(value))
    if isinstance(value, RefundLine):
        return _Row(name, _format_refund(value, translations), is_long=True)
    if isinstance(value, str):
        is_code = len(value) > _SHORT_CHARS_MAX and " " not in value
        return _Row(name, value, is_long=len(value) > _SHORT_CHARS_MAX, is_code=is_code)
    amount, symbol = value
    return _Row(name, translations.format_amount(trim_zeros(amount), symbol))


def _to_iso_time(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def _format_refund(refund: RefundLine, translations: Translations) -> str:
    parts = (
        translations.format_amount(trim_zeros(refund.value), refund.symbol),
        translations.plain(f"refund.{refund.status}"),
        None if refund.at_s is None else translations.format_date(refund.at_s),
        refund.transaction,
    )
    return " · ".join(part for part in parts if part)
