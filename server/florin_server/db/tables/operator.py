"""Tables of the operator's settings, and of an installation's single values.

Conventions as in `tables`.
"""

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class ExecutorPauseRow(TableRow, table=True):
    """A paused executor (CAIP-10 account that sends), which sends nothing new."""

    __tablename__ = "executor_pause"
    __table_args__ = (WITHOUT_ROWID,)

    id: str = text_column(key=True)
    paused_at_us: int = integer_column()


class InstallationRow(TableRow, table=True):
    """A single value of an installation."""

    __tablename__ = "installation"
    __table_args__ = (WITHOUT_ROWID,)

    name: str = text_column(key=True)
    value: str = text_column()


class GenerationRow(TableRow, table=True):
    """The version counter of a kind of cached data."""

    __tablename__ = "generation"
    __table_args__ = (WITHOUT_ROWID,)

    kind: str = text_column(key=True)
    n: int = integer_column()
