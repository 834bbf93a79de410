"""Looks at payments' own addresses after their payments, and sends home what is left there.

Every block is read for an address while money is expected. Later it is looked at every day for half
a year, and on the operator's request. Money that is worth its transaction goes home in transactions
of many addresses; what is final then is booked and returned.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.payments.deposits import is_worth_moving
from florin_server.money.settlement.store import address_sweeps
from florin_server.money.settlement.store.address_sweeps import WATCHED_S, AddressLook
from florin_server.money.settlement.worker.reorg_watch import ReorgWatch
from florin_server.money.settlement.worker.stray_returns import StrayReturns
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.rails.address_roles import AddressSweeper, DepositReader, PaymentAddresses
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import AddressSweep, RailUnavailable, SignedTransaction
from florin_server.settings.context import SettingsContext

_log = logging.getLogger(__name__)

_PAUSE_US: Final = 10_000_000
_LOOKS_MAX: Final = 100  # of one turn
_DAY_US: Final = 86_400_000_000
# after a transaction: longer each time that it moved nothing
_RETRY_US: Final = 30_000_000
_REFUSED_US: Final = 600_000_000
_NATIVE_DECIMALS: Final = 18
# money whose cost has no price here is moved from one whole unit of a currency on
_UNPRICED_MIN: Final = Fraction(1)
_CURRENCY: Final = "USD"


class _Context(
    ChainContext, EventContext, ScreeningContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


class StrayMoney:
    """The looks at the addresses of one chain."""

    def __init__(self, app: _Context, rail: Rail, reorg_watch: ReorgWatch) -> None:
        self._app = app
        self._rail = rail
        self._reorg_watch = reorg_watch
        self._look_at_us = 0
        self._looks_max = _LOOKS_MAX
        self._enrolled_s: int | None = None

    async def run_turn(self, queue: TransactionQueue) -> None:
        """Look at some addresses that are due; payments do not wait for a chain that is silent."""
        deposits, sweeper, addresses = (
            self._rail.deposits,
            self._rail.sweeper,
            self._rail.addresses,
        )
        steady_us = self._app.clock.steady_us()
        if deposits is None or sweeper is None or addresses is None or steady_us < self._look_at_us:
            return
        if not queue.has_room:
            return
        self._look_at_us = steady_us + _PAUSE_US
        await self._enroll()
        now_us = self._app.clock.now_us()
        looks = await self._app.store.read(
            address_sweeps.list_due(self._rail.chain_id, now_us, self._looks_max)
        )
        if not looks:
            return
        try:
            await self._look(queue, deposits, sweeper, addresses, looks)
        except RailUnavailable as error:
            # many nodes have the states of few blocks, and more come while all addresses are read
            self._looks_max = max(1, len(looks) // 2)
            _log.warning(
                "%s: money at payments' addresses is not moved yet: %s", self._rail.chain_id, error
            )
        else:
            self._looks_max = min(_LOOKS_MAX, self._looks_max + 1)

    async def _enroll(self) -> None:
        """Look at addresses from the end of the time in which every block was read for them."""
        now_us = self._app.clock.now_us()
        now_s = now_us // 1_000_000
        since_s = now_s - WATCHED_S if self._enrolled_s is None else self._enrolled_s
        await self._app.store.write(
            address_sweeps.enroll(self._rail.chain_id, since_s, now_s, now_us)
        )
        self._enrolled_s = now_s

    async def _look(
        self,
        queue: TransactionQueue,
        deposits: DepositReader,
        sweeper: AddressSweeper,
        addresses: PaymentAddresses,
        looks: Sequence[AddressLook],
    ) -> None:
        cost = await sweeper.estimate_cost()
        returns = StrayReturns(
            self._app,
            self._rail,
            deposits,
            self._reorg_watch,
            lambda asset, value: self._is_worth(addresses, asset, value, cost),
        )
        final = await self._record_departures(deposits, returns, looks)
        if final is None:
            return
        assets = set(deposits.assets)
        held = await deposits.read_balances(
            [
                (look.address, asset)
                for look in looks
                for asset in assets.union(filter(None, [look.requested_asset]))
            ],
            final,
        )
        sweeps: list[tuple[AddressLook, AddressSweep]] = []
        for look in looks:
            worth = tuple(
                asset
                for (address, asset), value in held.items()
                if address == look.address
                and value
                and (asset == look.requested_asset or self._is_worth(addresses, asset, value, cost))
            )
            if worth:
                sweeps.append((look, AddressSweep(addresses.get_route(look.option), worth)))
        refused = await self._sweep(queue, sweeper, sweeps, final)
        now_us = self._app.clock.now_us()
        full = {look.address for look, _ in sweeps}
        quiet = [look.address for look in looks if look.address not in full]
        await self._postpone(quiet, now_us + _DAY_US, final)
        # the token is paused, or home is frozen; what had no room is still due
        await self._postpone(refused, now_us + _REFUSED_US, final)
        for look in looks:
            if look.requested_asset is not None and look.address in quiet:
                await self._app.store.write(
                    address_sweeps.forget_request(self._rail.chain_id, look.address)
                )

    async def _postpone(self, addresses: Sequence[str], due_us: int, final: int) -> None:
        if addresses:
            await self._app.store.write(
                address_sweeps.postpone(self._rail.chain_id, addresses, due_us, final)
            )

    async def _record_departures(
        self, deposits: DepositReader, returns: StrayReturns, looks: Sequence[AddressLook]
    ) -> int | None:
        """Book what left addresses since their last looks; return up to which final block.

        None if more blocks must be read first.
        """
        chain_id = self._rail.chain_id
        by_address = {look.address: look for look in looks}
        starts = [start for look in looks if (start := self._get_start(look)) is not None]
        activity = await deposits.read_activity(
            list(by_address), min(starts) if starts else await self._get_final(deposits) + 1
        )
        last = min(activity.last, activity.final)
        listed = set(deposits.assets)
        for address, look in by_address.items():
            start = self._get_start(look)
            transfers = [
                transfer
                for transfer in activity.home_transfers
                if transfer.address == address
                and (start or 0) <= transfer.block_number <= last
                and (
                    (asset := deposits.get_asset(transfer.token)) in listed
                    or asset == look.requested_asset
                )
            ]
            if transfers:
                await returns.record(look, transfers)
                await self._app.store.write(
                    address_sweeps.postpone(chain_id, [address], self._app.clock.now_us(), last)
                )
        if activity.last < activity.final:
            now_us = self._app.clock.now_us()
            behind = [look.address for look in looks if (look.read_to or 0) < last]
            await self._postpone(behind, now_us, last)
            return None
        return activity.final

    def _get_start(self, look: AddressLook) -> int | None:
        """Return the first block to read for an address; None if it is the next final one."""
        if look.read_to is not None:
            return look.read_to + 1
        return look.from_block if look.route_chain_id == self._rail.chain_id else None

    async def _get_final(self, deposits: DepositReader) -> int:
        return (await deposits.read_activity([], 0)).final

    async def _sweep(
        self,
        queue: TransactionQueue,
        sweeper: AddressSweeper,
        sweeps: Sequence[tuple[AddressLook, AddressSweep]],
        final: int,
    ) -> list[str]:
        """Send what would move now, as far as one transaction goes; return what would not.

        What left the addresses is recorded up to the block `final`.
        """
        if not sweeps:
            return []
        good = await sweeper.check([sweep for _, sweep in sweeps])
        ready = [item for item, ok in zip(sweeps, good, strict=True) if ok]
        refused = [look.address for (look, _), ok in zip(sweeps, good, strict=True) if not ok]
        if not ready:
            return refused
        chosen = sweeper.select_first([sweep for _, sweep in ready])
        looks = [look for look, _ in ready[: len(chosen)]]
        now_us, chain_id = self._app.clock.now_us(), self._rail.chain_id

        async def sign(nonce: int) -> SignedTransaction:
            return await sweeper.sign(queue.key.address, nonce, chosen)

        @operation
        def claim() -> Op[None]:
            for look in looks:
                pause_us = min(_RETRY_US << look.tries, _DAY_US)
                yield from address_sweeps.postpone(
                    chain_id, [look.address], now_us + pause_us, final, look.tries + 1
                )

        await queue.send([], sign, claim)
        _log.info("%s: sent home the money of %d addresses", chain_id, len(looks))
        return refused

    def _is_worth(self, addresses: PaymentAddresses, asset: str, value: int, cost: int) -> bool:
        """Return True if money is worth its transaction, as far as prices are known."""
        native = self._rail.native_asset
        if asset == native:
            return is_worth_moving(value, cost, addresses.sweep_factor)
        worth = self._find_worth(asset, value)
        if worth is None:
            return False
        spent = self._find_worth(native, cost)
        if spent is None:
            return worth >= _UNPRICED_MIN
        return worth >= addresses.sweep_factor * spent

    def _find_worth(self, asset: str, value: int) -> Fraction | None:
        """Return what minor units are worth in the currency; None if that is unknown."""
        listed = self._rail.assets.get(asset)
        decimals = _NATIVE_DECIMALS if listed is None else listed.decimals
        if self._rail.pegs.get(asset) == _CURRENCY:
            return Fraction(value, 10**decimals)
        rate = self._app.prices.find_rate(asset, _CURRENCY, self._app.clock.now_us())
        if rate is None:
            # other pegs are of about as much worth
            return Fraction(value, 10**decimals) if self._rail.pegs.get(asset) else None
        return Fraction(rate.price) * Fraction(value, 10**decimals)
