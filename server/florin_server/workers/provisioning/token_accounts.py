"""Opens the accounts in which receivers hold tokens, before anybody pays into them.

Each is claimed together with the transaction that opens it, which is journaled like any other: none
is opened twice, and not too many a day, for whoever owns one may close it and keep its rent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from florin_server.domain.accounts.destinations import AssetAccount, Opening
from florin_server.domain.quarantine import ItemKind
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.provisioning import TokenAccounts
from florin_server.rails.types import RailUnavailable, Signed
from florin_server.store.engine.query import Op, operation
from florin_server.store.settlement import token_accounts
from florin_server.workers.settlement.tx_sender import TxSender

_log = logging.getLogger(__name__)

# others may have registered something, and a new day has room again
_LOOK_US = 600 * 1_000_000
# when a turn that failed is repeated
_RETRY_US = 10 * 1_000_000


def name_of(opening: Opening) -> str:
    """Return the subject under which an account to be opened is set aside."""
    return f"{opening.place.account}/{opening.place.asset}"


class TokenAccountKeeper:
    """Works off what is wanted on one chain."""

    def __init__(self, app: Core, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._look_at_us = 0
        self._started = False

    async def turn(self, sender: TxSender) -> None:
        """Opens what one transaction can, if anything is wanted and the day has room.

        What cannot be done now waits: payments are not to be kept by it. What nobody expects is
        raised, and tried again as soon.
        """
        try:
            await self._turn(sender)
        except RailUnavailable as error:
            self._look_again_soon()
            _log.warning("%s: token accounts wait to be opened: %s", self._rail.chain_id, error)
        except Exception:
            self._look_again_soon()
            raise

    def _look_again_soon(self) -> None:
        """Have what this turn was to open looked for again before others register something."""
        self._look_at_us = self._app.clock.steady_us() + _RETRY_US

    async def _turn(self, sender: TxSender) -> None:
        work, now_us = self._rail.token_accounts, self._app.clock.now_us()
        if work is None or not work.caps.chain:
            return
        state = self._app.chains[self._rail.chain_id]
        steady_us = self._app.clock.steady_us()
        if not state.has_new_receivers and steady_us < self._look_at_us:
            return
        state.has_new_receivers = False
        self._look_at_us = steady_us + _LOOK_US
        await self._want_own()
        store, chain_id = self._app.store, self._rail.chain_id
        quarantine = self._app.quarantine
        # what is set aside takes no place of others
        count = work.at_once + quarantine.count(ItemKind.TOKEN_ACCOUNT, chain_id)
        found = await store.read(token_accounts.wanted(chain_id, work.caps, count, now_us))
        left = quarantine.left_in(ItemKind.TOKEN_ACCOUNT, chain_id, found, name_of)
        wanted = left[: work.at_once]
        if not wanted:
            return
        await quarantine.each(
            ItemKind.TOKEN_ACCOUNT,
            chain_id,
            wanted,
            name_of,
            "open",
            lambda part: self._open_missing(sender, work, part, now_us),
        )
        # there may be more
        state.has_new_receivers = True

    async def _open_missing(
        self, sender: TxSender, work: TokenAccounts, wanted: Sequence[Opening], now_us: int
    ) -> None:
        store = self._app.store
        places = [one.place for one in wanted]
        missing = await work.missing(places)
        opened = [one for one in wanted if one.place in missing]
        # what needs nothing is done with, and so is what somebody else opened since
        left_out = [one.place for one in wanted if one.place not in missing]
        await store.write(token_accounts.drop(left_out))
        if opened:
            await self._open(sender, work, opened, now_us)

    async def _open(
        self, sender: TxSender, work: TokenAccounts, opened: Sequence[Opening], now_us: int
    ) -> None:
        places = [one.place for one in opened]
        made: list[Signed] = []

        async def sign(nonce: int) -> Signed:  # noqa: ARG001
            made.append(await work.sign(places))
            return made[0]

        @operation
        def claim() -> Op[None]:
            # an operation runs when it is committed, and that is after the signing
            yield from token_accounts.claim(opened, work.caps, made[0].hash, now_us)

        try:
            await sender.send([], sign, claim)
        except token_accounts.NotOpenable as error:
            _log.info("%s: %s", self._rail.chain_id, error)
        else:
            _log.info("%s: %d token accounts are opened", self._rail.chain_id, len(opened))

    async def _want_own(self) -> None:
        """The treasury receives every token."""
        work = self._rail.token_accounts
        if self._started or work is None or not self._rail.assets:
            return
        for asset in self._rail.assets:
            if work.needed(place := AssetAccount(asset, self._rail.treasury)):
                wanted = Opening(place, merchant_id=None)
                await self._app.store.write(token_accounts.want(wanted, self._app.clock.now_us()))
        self._started = True
