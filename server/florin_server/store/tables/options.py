"""Tables about ways to pay: what was offered, to whom how often, and what builds came to.

Conventions as in `tables`.
"""

from typing import Any

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, amount, json_, number, partial, text_

# a query uses a partial index only if it repeats the very same words
REFERENCED = "reference IS NOT NULL"


class OptionRow(Base, table=True):
    """One way to pay a payment; never changes."""

    __tablename__ = "payment_option"
    __table_args__ = (
        partial("ix_payment_option_reference", REFERENCED, "reference"),
        Index("ix_payment_option_payer", "payment_id", "payer"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    id: str = text_(key=True)
    account: str = text_()
    payer: str = text_()
    chain_id: str = text_()
    asset: str = text_()
    value: int = amount()
    eta_s: int = number()
    expires_at: int | None = number()
    method: str = text_()
    actions: list[Any] = json_()
    terms: dict[str, Any] = json_()
    created_at_us: int = number()
    fee: int = amount()
    fee_fixed: int = amount()
    fee_basis_points: int = number()
    reference: str | None = text_()
    head: int | None = number()


class OptionCountRow(Base, table=True):
    """How many options of a payment were stored for one caller; for all callers if that is empty.

    `origin` is a hash that means nothing outside its payment.
    """

    __tablename__ = "option_count"
    __table_args__ = (BY_KEY,)

    payment_id: str = text_(key=True)
    origin: str = text_(key=True)
    n: int = number()


class IssuedRow(Base, table=True):
    """What an option's build was resolved to; never changes."""

    __tablename__ = "issued"
    __table_args__ = (BY_KEY,)

    payment_id: str = text_(key=True)
    option_id: str = text_(key=True)
    n: int = number(key=True)
    actions: list[Any] = json_()
    terms: dict[str, Any] = json_()
    head: int = number()
    issued_at_us: int = number()
    expires_at: int | None = number()
