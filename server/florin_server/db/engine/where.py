"""The location and settings of a store on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class DatabaseConfig:
    """A PostgreSQL database, and the number of one process's connections to it.

    `dsn` begins with `postgresql://` and may contain a password, so it is never shown.
    `serializable` isolates every operation fully, as some engines always do. `notify` sends
    notifications of changes between processes, which some engines do not support. Scans are read
    from the server that `standby_dsn` names while it is at most `standby_lag_max_s` behind.
    """

    dsn: str = field(repr=False)
    readers: int = 4
    writers: int = 4
    serializable: bool = False
    notify: bool = True
    standby_dsn: str = field(default="", repr=False)
    standby_lag_max_s: float = 10.0

    @property
    def can_partition(self) -> bool:
        """Return False for settings of engines that only speak PostgreSQL's protocol."""
        return self.notify and not self.serializable

    def __str__(self) -> str:
        hosts = parse_hosts(self.dsn)
        named = ", ".join(f"{host}{'' if port is None else f':{port}'}" for host, port in hosts)
        path = urlsplit(self.dsn).path[1:]
        return f"PostgreSQL at {named or 'a socket'}, database {path or 'of the user'}"


def parse_hosts(dsn: str) -> list[tuple[str, int | None]]:
    """Return the hosts of an address, in order; raise ValueError for an invalid port."""
    listed = urlsplit(dsn).netloc.rpartition("@")[2]
    parts = [urlsplit(f"//{part}") for part in listed.split(",")]
    return [(part.hostname, part.port) for part in parts if part.hostname]
