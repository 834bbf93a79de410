"""Tables of the limits that processes of a store share; conventions as in `tables`.

Keys are hashed with a secret of the installation, so that callers cannot be identified here. Times
are those of the process whose clock is furthest ahead.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class ProcessRow(TableRow, table=True):
    """A process, which updates its row every second; without updates it counts as dead.

    `revision` is the schema that it knows; empty before this column existed.
    """

    __tablename__ = "process"
    __table_args__ = (WITHOUT_ROWID,)

    id: str = text_column(key=True)
    now_us: int = integer_column()
    revision: str = text_column(default="")


class SharedBudgetRow(TableRow, table=True):
    """The time at which a key's budget is full again, after the use by all processes."""

    __tablename__ = "shared_budget"
    __table_args__ = (Index("ix_shared_budget_whole_us", "whole_us"), WITHOUT_ROWID)

    key: str = text_column(key=True)
    whole_us: int = integer_column()


class SharedHoldRow(TableRow, table=True):
    """The number of responses that a process holds under a key."""

    __tablename__ = "shared_hold"
    __table_args__ = (Index("ix_shared_hold_key", "key"), WITHOUT_ROWID)

    process_id: str = text_column(key=True)
    key: str = text_column(key=True)
    n: int = integer_column()


class KeyTurnRow(TableRow, table=True):
    """A process that works under an idempotency key whose responses are not stored."""

    __tablename__ = "key_turn"
    __table_args__ = (Index("ix_key_turn_process_id", "process_id"), WITHOUT_ROWID)

    scope: str = text_column(key=True)
    key: str = text_column(key=True)
    process_id: str = text_column()
