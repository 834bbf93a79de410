"""Settings of the database connections of a process."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DatabaseSettings(BaseModel):
    """The PostgreSQL connections of a process.

    Two more connections serve scans of many rows, and two serve notifications between processes. If
    a standby is set, two connect to it.
    """

    model_config = ConfigDict(frozen=True)

    readers: int = Field(default=4, ge=1, le=100, description="number of connections that read")
    writers: int = Field(
        default=4,
        ge=1,
        le=100,
        description="number of connections that write, and so of write groups committed at the "
        "same time",
    )
    isolation: Literal["read committed", "serializable"] = Field(
        default="read committed",
        description="isolation level of writes; `serializable` for engines without other levels",
    )
    standby_lag_max_s: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="seconds by which the standby may be behind; lists, searches and statements "
        "are read from the primary server while it is further behind",
    )
    notify: bool = Field(
        default=True,
        description="processes notify each other of changes by NOTIFY and LISTEN; without them "
        "they find changes within a second",
    )
