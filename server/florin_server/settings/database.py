"""Settings of the database connections of a process."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DatabaseSettings(BaseModel):
    """The PostgreSQL connections of a process.

    Two more connections serve scans of many rows, and two serve notifications between processes.
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
    notify: bool = Field(
        default=True,
        description="processes notify each other of changes by NOTIFY and LISTEN; without them "
        "they find changes within a second",
    )
