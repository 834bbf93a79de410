"""How long the store has the details of payments, and where old payments go."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ArchiveSettings(BaseModel):
    """The archive of old payments; it needs the extra `export`."""

    model_config = ConfigDict(frozen=True)

    folder: Path | None = Field(
        default=None,
        description="folder of the archive, the same for all processes; archived payments are "
        "read from it",
    )
    payment_days: int | None = Field(
        default=None,
        ge=30,
        description="days after which ended payments and their transactions leave the store for "
        "the archive, a month at a time; unset: never",
    )
    option_days: int | None = Field(
        default=None,
        ge=7,
        description="days after which the options of an ended payment that were not chosen "
        "are deleted; unset: they stay as long as the payment",
    )

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if self.payment_days is not None and self.folder is None:
            raise ValueError("set `folder` too: payments leave the store only for the archive")
        return self
