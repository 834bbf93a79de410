"""Rail whose options have a build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from florin_server.domain.payments.payment import BuildAction, PaymentOption, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.types import RailUnavailable

TOKEN = "5a" * 16


class BuildingRail:
    """A rail whose options have a build, and whose issued builds last a minute."""

    def __init__(self, rail: Any, patch: pytest.MonkeyPatch) -> None:
        self._offer, self._verify = rail.offers.build_option, rail.verifier.verify
        self.inline: dict[str, PaymentOption] = {}
        self.rail = rail
        self.submitted = True
        self.silent = False
        self.verified: list[Any] = []
        for role, name in (
            (rail.offers, "build_option"),
            (rail.offers, "resolve_build"),
            (rail.direct_settlement, "is_direct"),
            (rail.verifier, "verify"),
        ):
            patch.setattr(role, name, getattr(self, name))

    def build_option(self, *args: Any) -> PaymentOption:
        option = self._offer(*args)
        self.inline[option.id] = option
        # payments are not searched for before they are confirmed
        return replace(option, actions=(BuildAction(TOKEN),), reference=None)

    async def resolve_build(
        self,
        option: PaymentOption,
        resolved_builds: Any,
        now_us: int,
        free_nonce: Any = None,
        openable_accounts: Any = (),
    ) -> ResolvedBuild | None:
        head = await self.rail.observer.get_head()
        if self.silent:
            raise RailUnavailable("no answer")
        now = now_us // 1_000_000
        if resolved_builds and resolved_builds[0].expires_at > now:
            return None
        return ResolvedBuild(
            payment_id=option.payment_id,
            option_id=option.id,
            n=len(resolved_builds),
            actions=self.inline[option.id].actions,
            terms={"turn": len(resolved_builds)},
            head=head.number,
            issued_at_us=now_us,
            expires_at=now + 60,
        )

    def is_direct(self, option: PaymentOption) -> bool:
        return not self.submitted

    async def verify(self, option: PaymentOption, resolved_builds: Any, outputs: Any) -> PayerKind:
        self.verified.append(resolved_builds)
        return await self._verify(option, resolved_builds, outputs)
