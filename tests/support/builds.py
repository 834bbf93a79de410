"""A rail whose options have a build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from florin_server.domain.payments.payment import (
    Build,
    Option,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.types import RailUnavailable

TOKEN = "5a" * 16


class Building:
    """A rail whose options have a build, and whose issues last a minute."""

    def __init__(self, rail: Any, patch: pytest.MonkeyPatch) -> None:
        self._offer, self._verify = rail.offers.offer, rail.verifier.verify
        self.inline: dict[str, Option] = {}
        self.rail = rail
        self.submitted = True
        self.silent = False
        self.verified: list[Any] = []
        for role, name in (
            (rail.offers, "offer"),
            (rail.offers, "build"),
            (rail.direct, "is_direct"),
            (rail.verifier, "verify"),
        ):
            patch.setattr(role, name, getattr(self, name))

    def offer(self, *args: Any) -> Option:
        option = self._offer(*args)
        self.inline[option.id] = option
        # nobody looks for what pays it before it is confirmed
        return replace(option, actions=(Build(TOKEN),), reference=None)

    async def build(
        self, option: Option, issued: Any, now_us: int, spare: Any = None, openable: Any = ()
    ) -> ResolvedBuild | None:
        head = await self.rail.observer.head()
        if self.silent:
            raise RailUnavailable("no answer")
        now = now_us // 1_000_000
        if issued and issued[0].expires_at > now:
            return None
        return ResolvedBuild(
            payment_id=option.payment_id,
            option_id=option.id,
            n=len(issued),
            actions=self.inline[option.id].actions,
            terms={"turn": len(issued)},
            head=head.number,
            issued_at_us=now_us,
            expires_at=now + 60,
        )

    def is_direct(self, option: Option) -> bool:
        return not self.submitted

    async def verify(self, option: Option, issued: Any, outputs: Any) -> PayerKind:
        self.verified.append(issued)
        return await self._verify(option, issued, outputs)
