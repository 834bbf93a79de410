"""The journals of a merchant, of a partner's merchants, or of all merchants of a mode.

Journals name their merchant since v0030. For earlier ones it is that of their payment, or the one
whose balance a payout reduced.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import ColumnElement, case, exists, func, literal_column, select

from florin_server.db.engine.query import param
from florin_server.db.tables.tables import (
    ledger_journal_table,
    ledger_transfer_table,
    merchant_table,
    payment_table,
)
from florin_server.domain.ledger import accounts

JOURNAL: Final = ledger_journal_table.c
TRANSFER: Final = ledger_transfer_table.c
_SIDES: Final = (TRANSFER.debit, TRANSFER.credit)
MERCHANT_PREFIX: Final = accounts.kind_prefix(accounts.LedgerAccountKind.MERCHANT)
_PREFIX: Final[ColumnElement[Any]] = literal_column(f"'{MERCHANT_PREFIX}'")
# the character after a colon
_END: Final[ColumnElement[Any]] = literal_column(f"'{MERCHANT_PREFIX[:-1]};'")
_ID_START: Final[ColumnElement[Any]] = literal_column(str(len(MERCHANT_PREFIX) + 1))


class ScopeKind(Enum):
    """The kinds of a scope, from narrow to wide."""

    MERCHANT = auto()
    PARTNER = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The merchants of a report: one, those of a partner, or all; in one mode."""

    live: bool
    partner_id: str | None = None
    merchant_id: str | None = None

    @property
    def kind(self) -> ScopeKind:
        """Return the kind of the scope."""
        if self.merchant_id is not None:
            return ScopeKind.MERCHANT
        return ScopeKind.ALL if self.partner_id is None else ScopeKind.PARTNER

    def to_params(self) -> dict[str, object]:
        """Return the parameters of the statements."""
        if self.merchant_id is not None:
            return {"scope_merchant": self.merchant_id}
        partner = {} if self.partner_id is None else {"scope_partner": self.partner_id}
        return {"scope_live": self.live, **partner}


def is_in_time() -> ColumnElement[bool]:
    """Return the condition that a journal was booked from `start_us` until before `end_us`."""
    return (JOURNAL.at_us >= param("start_us")) & (JOURNAL.at_us < param("end_us"))


def names_merchant(kind: ScopeKind) -> ColumnElement[bool]:
    """Return the condition that a journal names a merchant of the scope."""
    return _is_merchant(kind, JOURNAL.merchant_id)


def implies_merchant(kind: ScopeKind) -> ColumnElement[bool]:
    """Return the condition that a journal and its transfer, without a name, concern the scope."""
    by_payment = (
        select(payment_table.c.merchant_id)
        .where(payment_table.c.id == JOURNAL.payment_id)
        .correlate(ledger_journal_table)
        .scalar_subquery()
    )
    by_balance = case(
        *((_is_balance(side), func.substr(side, _ID_START)) for side in _SIDES),
    )
    merchant_id = func.coalesce(by_payment, by_balance)
    return JOURNAL.merchant_id.is_(None) & _is_merchant(kind, merchant_id)


def is_balance_of(kind: ScopeKind, side: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that an account is the balance of a merchant of the scope."""
    if kind is ScopeKind.MERCHANT:
        return side == _PREFIX.concat(param("scope_merchant"))
    if kind is ScopeKind.PARTNER:
        own = select(_PREFIX.concat(merchant_table.c.id)).where(*_in_scope(kind))
        return side.in_(own)
    is_merchant = _is_merchant(kind, func.substr(side, _ID_START))
    return _is_balance(side) & is_merchant


def _is_balance(side: ColumnElement[Any]) -> ColumnElement[bool]:
    return (side >= _PREFIX) & (side < _END)


def _is_merchant(kind: ScopeKind, merchant_id: ColumnElement[Any]) -> ColumnElement[bool]:
    if kind is ScopeKind.MERCHANT:
        return merchant_id == param("scope_merchant")
    if kind is ScopeKind.PARTNER:
        return merchant_id.in_(select(merchant_table.c.id).where(*_in_scope(kind)))
    return exists().where(merchant_table.c.id == merchant_id, *_in_scope(kind))


def _in_scope(kind: ScopeKind) -> tuple[ColumnElement[bool], ...]:
    in_mode = merchant_table.c.live == param("scope_live")
    if kind is ScopeKind.ALL:
        return (in_mode,)
    return (merchant_table.c.partner_id == param("scope_partner"), in_mode)
