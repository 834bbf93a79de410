"""Where a store on PostgreSQL is, and how it is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Database:
    """A database of PostgreSQL, and how many connections one process has to it.

    `dsn` begins with `postgresql://` and may hold a password, so it is never told. `serializable`
    runs every operation as if it were alone, which some engines do anyway; `notify` lets processes
    tell each other what they changed, which some engines cannot.
    """

    dsn: str = field(repr=False)
    readers: int = 4
    writers: int = 4
    serializable: bool = False
    notify: bool = True

    def __str__(self) -> str:
        hosts = hosts_of(self.dsn)
        named = ", ".join(f"{host}{'' if port is None else f':{port}'}" for host, port in hosts)
        path = urlsplit(self.dsn).path[1:]
        return f"PostgreSQL at {named or 'a socket'}, database {path or 'of the user'}"


def hosts_of(dsn: str) -> list[tuple[str, int | None]]:
    """Return the hosts that an address names, in order; ValueError if a port is none."""
    listed = urlsplit(dsn).netloc.rpartition("@")[2]
    parts = [urlsplit(f"//{part}") for part in listed.split(",")]
    return [(part.hostname, part.port) for part in parts if part.hostname]
