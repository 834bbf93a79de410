"""The operator's settings for the nodes of one chain."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

BATCH_MAX = 100  # calls in one payload, which most hosted nodes accept
STALLED_S_MIN = 60  # several polls of a node, so that a single poll proves nothing
_Url = Annotated[str, Field(min_length=1)]


class NodeSettings(BaseModel):
    """The nodes of a chain, and how far they are trusted."""

    # a mistyped URL may contain an access key, so errors do not repeat it
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rpc_url: _Url | Annotated[tuple[_Url, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="JSON-RPC address of a node, or a list of them, the preferred one first",
    )
    ws_url: Annotated[str, Field(pattern=r"^wss?://[^/]")] | None = Field(
        default=None, description="WebSocket where a node announces new blocks; unset: it is polled"
    )
    agreement: int | None = Field(
        default=None,
        ge=1,
        description="nodes that must agree on what ends a payment; unset: two, if there are two",
    )
    lag_max: int = Field(
        default=5,
        ge=1,
        description="a node that is more blocks behind the others is left out; on fast EVM chains: "
        "more than ten seconds of blocks",
    )
    stalled_after_s: int = Field(
        default=0,
        ge=0,
        le=86_400,
        description="after so many seconds without a new block, buyers are not offered the "
        "chain and "
        "Florin alerts you; at least 60, or 0: never",
    )
    batch_max: int = Field(
        default=BATCH_MAX, ge=1, le=1000, description="calls that the nodes accept in one payload"
    )
    poll_ms: int = Field(
        default=1000,
        ge=10,
        le=600_000,
        description="between two polls of the head, while no announcements arrive",
    )

    @field_validator("stalled_after_s")
    @classmethod
    def _longer_than_looks(cls, value: int) -> int:
        if 0 < value < STALLED_S_MIN:
            raise ValueError(f"nodes are not polled that often: set at least {STALLED_S_MIN}, or 0")
        return value

    @model_validator(mode="after")
    def _agreement_is_possible(self) -> Self:
        if self.agreement is not None and self.agreement > max(1, len(self.rpc_urls)):
            raise ValueError("agreement is more than there are addresses in rpc_url")
        if len(set(self.rpc_urls)) != len(self.rpc_urls):
            raise ValueError("an address is listed twice in rpc_url")
        return self

    @property
    def rpc_urls(self) -> tuple[str, ...]:
        """Return the URLs in the order of preference; none if a transport is used."""
        if self.rpc_url is None:
            return ()
        return (self.rpc_url,) if isinstance(self.rpc_url, str) else self.rpc_url
