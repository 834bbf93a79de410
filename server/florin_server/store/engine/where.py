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
        found = urlsplit(self.dsn)
        host = found.hostname or "a socket"
        port = "" if found.port is None else f":{found.port}"
        return f"PostgreSQL at {host}{port}, database {found.path[1:] or 'of the user'}"
