"""Tables about what the operator set, and what an installation keeps once.

Conventions as in `tables`.
"""

from florin_server.store.tables.fields import BY_KEY, Base, number, text_


class ExecutorPauseRow(Base, table=True):
    """An executor (CAIP-10 account that sends) that sends nothing new."""

    __tablename__ = "executor_pause"
    __table_args__ = (BY_KEY,)

    id: str = text_(key=True)
    paused_at_us: int = number()


class InstallationRow(Base, table=True):
    """Something that an installation keeps once."""

    __tablename__ = "installation"
    __table_args__ = (BY_KEY,)

    name: str = text_(key=True)
    value: str = text_()


class GenerationRow(Base, table=True):
    """How often things of one kind were changed that processes remember."""

    __tablename__ = "generation"
    __table_args__ = (BY_KEY,)

    kind: str = text_(key=True)
    n: int = number()
