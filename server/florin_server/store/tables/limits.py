"""Tables by which processes that share a store keep one limit; conventions as in `tables`.

Keys are hashed with a secret of the installation: who calls is not to be read here. Times are those
of the process whose clock is farthest ahead.
"""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, number, text_


class ProcessRow(Base, table=True):
    """A process, which says so every second; one that has not for some is dead.

    `revision` is the schema that it knows; empty before there was such a column.
    """

    __tablename__ = "process"
    __table_args__ = (BY_KEY,)

    id: str = text_(key=True)
    now_us: int = number()
    revision: str = text_(default="")


class SharedBudgetRow(Base, table=True):
    """When the budget of a key is whole again, by what all processes took of it."""

    __tablename__ = "shared_budget"
    __table_args__ = (Index("ix_shared_budget_whole_us", "whole_us"), BY_KEY)

    key: str = text_(key=True)
    whole_us: int = number()


class SharedHoldRow(Base, table=True):
    """How many answers a process holds under a key."""

    __tablename__ = "shared_hold"
    __table_args__ = (Index("ix_shared_hold_key", "key"), BY_KEY)

    process_id: str = text_(key=True)
    key: str = text_(key=True)
    n: int = number()


class KeyTurnRow(Base, table=True):
    """A process works under an idempotency key whose answers are not stored."""

    __tablename__ = "key_turn"
    __table_args__ = (Index("ix_key_turn_process_id", "process_id"), BY_KEY)

    scope: str = text_(key=True)
    key: str = text_(key=True)
    process_id: str = text_()
