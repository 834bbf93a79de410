"""The event sink of the installation, which all its processes share.

The settings of one process prove nothing: another process can have others. So the store has the
destination, and a process changes it only with a higher revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from florin_server.db import installation
from florin_server.db.engine.query import Op, operation
from florin_server.money.outbox.store.outbox import EVENT_SINK_MARK
from florin_server.operations.store import leases

LEASE_NAME: Final = "event_sink"
# the name of the value with the revision, also while the sink is off
_REVISION: Final = f"{EVENT_SINK_MARK}_revision"


@dataclass(frozen=True, slots=True)
class SinkDestination:
    """The stream that receives the events; without `hosts` (`host:port`) the sink is off."""

    revision: int
    hosts: tuple[str, ...] = ()
    stream: str = ""
    subject: str = ""

    @classmethod
    def parse(cls, revision: int, text: str) -> Self:
        """Parse `to_text`."""
        hosts, stream, subject = text.split(" ")
        return cls(revision, tuple(hosts.split(",")), stream, subject)

    def to_text(self) -> str:
        """Return the text for the store, without the revision."""
        return f"{','.join(self.hosts)} {self.stream} {self.subject}"

    def is_same(self, other: SinkDestination) -> bool:
        """Return True if events arrive in the same stream, whatever the revisions are.

        A host in common is enough: all hosts are of one cluster, and can be replaced one by one.
        """
        if not (self.hosts and other.hosts):
            return not self.hosts and not other.hosts
        return not {*self.hosts}.isdisjoint(other.hosts) and (self.stream, self.subject) == (
            other.stream,
            other.subject,
        )

    def describe_difference(self, installed: SinkDestination | None) -> str:
        """Say how these settings differ from the installation's; empty if they do not."""
        if installed is None or self.is_same(installed):
            return ""
        return (
            f"the settings of this process, of revision {self.revision}, name "
            f"{self.describe()}; the installation's, of revision {installed.revision}, is "
            f"{installed.describe()}"
        )

    def describe(self) -> str:
        """Return the destination for a sentence."""
        if not self.hosts:
            return "no event sink"
        return f"stream {self.stream} at {', '.join(self.hosts)} for {self.subject}.>"


@operation
def find_installed() -> Op[SinkDestination | None]:
    """Return the destination of the installation; None if there never was one."""
    values = yield from installation.list_values(EVENT_SINK_MARK)
    revision = values.get(_REVISION.removeprefix(EVENT_SINK_MARK))
    if revision is None:
        return None
    text = values.get("")
    return (
        SinkDestination(int(revision))
        if text is None
        else SinkDestination.parse(int(revision), text)
    )


@operation
def install(own: SinkDestination, *, is_alone: bool = False) -> Op[None]:
    """Make a process's destination that of the installation, if its revision allows it.

    The first destination, and that of a process which is alone, needs no higher revision. Events
    of later changes are queued unless the sink is off; what is queued stays so.
    """
    installed = yield from find_installed()
    if installed is None:
        may_install = bool(own.hosts)
    elif own.revision == installed.revision:
        may_install = is_alone or own.is_same(installed)
    else:
        may_install = is_alone or own.revision > installed.revision
    if not may_install or own == installed:
        return
    if own.hosts:
        yield from installation.put_value(EVENT_SINK_MARK, own.to_text())
    else:
        yield from installation.forget_value(EVENT_SINK_MARK)
    yield from installation.put_value(_REVISION, str(own.revision))


@operation
def acquire_lease(
    own: SinkDestination, owner: str, now_us: int, ttl_us: int, *, is_alone: bool
) -> Op[int | None]:
    """Acquire or renew the lease to publish to a destination; return its epoch.

    None if another process has the lease, or if the installation has another destination.
    """
    installed = yield from find_installed()
    if installed is None or not own.is_same(installed):
        return None
    return (yield from leases.acquire(LEASE_NAME, owner, now_us, ttl_us, is_alone))
