"""How a process uses its database."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DatabaseSettings(BaseModel):
    """How a process uses PostgreSQL.

    Two connections more are for what looks at many rows, two for what processes tell each other.
    """

    model_config = ConfigDict(frozen=True)

    readers: int = Field(default=4, ge=1, le=100, description="connections that read")
    writers: int = Field(
        default=4,
        ge=1,
        le=100,
        description="connections that write: so many groups of writes are committed at a time",
    )
    isolation: Literal["read committed", "serializable"] = Field(
        default="read committed",
        description="of what is written; `serializable` for engines that know nothing else",
    )
    notify: bool = Field(
        default=True,
        description="processes tell each other what they changed by NOTIFY and LISTEN; without, "
        "and where an engine has none, they find it within a second",
    )
