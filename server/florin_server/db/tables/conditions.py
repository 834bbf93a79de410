"""Tables of conditions of chains and the installation, as processes report them.

Conventions as in `tables`.
"""

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    enum_column,
    integer_column,
    text_column,
)
from florin_server.domain.conditions import ConditionState


class ReportedConditionRow(TableRow, table=True):
    """A condition as the holder of a lease, or a process for itself, reports it.

    `source` is the lease, or names the process; `subject` is a chain (CAIP-2), empty for the
    installation. `host` is the process's machine, empty for a lease. A process counts as alive
    until some time after `seen_us`.
    """

    __tablename__ = "reported_condition"
    __table_args__ = (WITHOUT_ROWID,)

    source: str = text_column(key=True)
    subject: str = text_column(key=True)
    name: str = text_column(key=True)
    state: ConditionState = enum_column(ConditionState)
    reason: str = text_column()
    since_us: int = integer_column()
    seen_us: int = integer_column()
    host: str = text_column()
