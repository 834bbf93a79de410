"""Tables about what is wrong with chains and the installation, as the processes report it.

Conventions as in `tables`.
"""

from florin_server.domain.conditions import State
from florin_server.store.tables.fields import BY_KEY, Base, number, one_of, text_


class ReportedConditionRow(Base, table=True):
    """A condition as the holder of a lease reports it, or a process of itself.

    `source` is the lease, or names the process; `subject` is a chain (CAIP-2), empty for the
    installation. `host` is the process's machine, empty for a lease. A process counts as alive
    until some time after `seen_us`.
    """

    __tablename__ = "reported_condition"
    __table_args__ = (BY_KEY,)

    source: str = text_(key=True)
    subject: str = text_(key=True)
    name: str = text_(key=True)
    state: State = one_of(State)
    reason: str = text_()
    since_us: int = number()
    seen_us: int = number()
    host: str = text_()
