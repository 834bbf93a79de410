"""Tables of options, their counts per caller, and their resolved builds.

Conventions as in `tables`.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Dialect, Index
from sqlmodel import Field

from florin_server.db.engine.columns import JsonText
from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    integer_column,
    json_column,
    partial_index,
    text_column,
)
from florin_server.domain.payments.payment import Action, BuildAction


class ActionsJson(JsonText):
    """The actions of an option or a build as JSON: a build action has one text, others three."""

    cache_ok = True

    def process_bind_param(
        self, value: Sequence[Action | BuildAction] | None, dialect: Dialect
    ) -> Any:
        """Return the texts of all actions."""
        steps = [
            [step.chain_id, step.method, step.params_json]
            if isinstance(step, Action)
            else [step.data]
            for step in value or ()
        ]
        return super().process_bind_param(steps, dialect)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Return the actions."""
        # long texts, and no numbers, which the faster reader would round
        steps = orjson.loads(value)
        return tuple(Action(*step) if len(step) == 3 else BuildAction(*step) for step in steps)


# a query uses a partial index only if it repeats the predicate exactly
HAS_REFERENCE_PREDICATE = "reference IS NOT NULL"


class OptionRow(TableRow, table=True):
    """An option of a payment; it never changes."""

    __tablename__ = "payment_option"
    __table_args__ = (
        partial_index("ix_payment_option_reference", HAS_REFERENCE_PREDICATE, "reference"),
        Index("ix_payment_option_payer", "payment_id", "payer"),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    id: str = text_column(key=True)
    account: str = text_column()
    payer: str = text_column()
    chain_id: str = text_column()
    asset: str = text_column()
    value: int = amount_column()
    eta_s: int = integer_column()
    expires_at: int | None = integer_column()
    method: str = text_column()
    actions: tuple[Action | BuildAction, ...] = Field(sa_type=ActionsJson)
    terms: dict[str, Any] = json_column()
    created_at_us: int = integer_column()
    fee: int = amount_column()
    fee_fixed: int = amount_column()
    fee_basis_points: int = integer_column()
    reference: str | None = text_column()
    head: int | None = integer_column()


class OptionCountRow(TableRow, table=True):
    """The number of stored options of a payment per caller, or in total with an empty `origin`.

    `origin` is a hash without a meaning outside its payment.
    """

    __tablename__ = "option_count"
    __table_args__ = (WITHOUT_ROWID,)

    payment_id: str = text_column(key=True)
    origin: str = text_column(key=True)
    n: int = integer_column()


class ResolvedBuildRow(TableRow, table=True):
    """A resolved build of an option; it never changes."""

    __tablename__ = "issued"
    __table_args__ = (WITHOUT_ROWID,)

    payment_id: str = text_column(key=True)
    option_id: str = text_column(key=True)
    n: int = integer_column(key=True)
    actions: tuple[Action | BuildAction, ...] = Field(sa_type=ActionsJson)
    terms: dict[str, Any] = json_column()
    head: int = integer_column()
    issued_at_us: int = integer_column()
    expires_at: int | None = integer_column()


class WatchedAddressRow(TableRow, table=True):
    """An address by which transactions that wallets send for a payment are found until a time.

    `asked_at_us` is when a wallet last fetched such a transaction.
    """

    __tablename__ = "watched_address"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    payment_id: str = text_column(key=True)
    address: str = text_column()
    asked_at_us: int = integer_column()
    until_s: int = integer_column()
