"""Looks at payments' own addresses, and turns enough money into an accepted payment.

All open addresses of a chain are read in one query per some hundred, from the newest final block
on. What is not final is read again each time, and what is stored of it is replaced: a
reorganization needs no code of its own. The settler forwards accepted payments like all others.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.payments import results
from florin_server.domain.payments.deposits import Deposit, explain_unknown
from florin_server.domain.payments.payment import Confirmation, PaymentOption, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.payments.store import deposit_addresses, deposits, payments
from florin_server.money.payments.store.deposit_addresses import WatchedDepositAddress
from florin_server.money.payments.store.deposit_events import NamedReport
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.deposit_payers import (
    find_return_account,
    sum_unblocked,
)
from florin_server.money.settlement.worker.deposit_reports import AddressPrice, build_seen_reports
from florin_server.money.settlement.worker.deposit_watch import (
    AddressWatch,
    DepositChanges,
    DepositKey,
    get_deposit_key,
)
from florin_server.money.settlement.worker.reorg_watch import (
    get_first_watched_block,
    is_block_gone,
)
from florin_server.operations.context import QuarantineContext
from florin_server.rails.address_roles import DepositReader
from florin_server.rails.protocol import Rail
from florin_server.rails.types import AddressActivity, RailUnavailable
from florin_server.rails.worker_failures import catch_unavailable
from florin_server.settings.context import SettingsContext


class _Context(
    EventContext, QuarantineContext, ScreeningContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_LOOK_US: Final = 1_000_000
# after a node that does not answer
_RETRY_US: Final = 5_000_000
# nodes are asked in vain so often in a look
_FAULTS_MAX: Final = 3
# the store is read for addresses that were opened since a moment before the last look, and now and
# then for everything: clocks of processes differ
_OVERLAP_US: Final = 10_000_000
_RELOAD_US: Final = 60_000_000
# geth answers a query of 1,000 topics, others of fewer
_PER_QUERY: Final = 500
_SHARED_BLOCKS: Final = 16
_COIN_NAMESPACE: Final = "/slip44:"
_COIN_TOKEN: Final = "0x" + "00" * 20


class AddressPayments:
    """The open addresses of one chain; a restart continues after the last final block."""

    def __init__(self, app: _Context, rail: Rail, follower: ChainFollower) -> None:
        self._app = app
        self._rail = rail
        self._follower = follower
        self._seen_rewinds: int | None = None  # at the latest complete check of final blocks
        self._watched: dict[str, AddressWatch] = {}
        self._cursor: int | None = None  # the block up to which all addresses were read
        self._look_at_us = self._reload_at_us = self._loaded_at_us = 0
        self._has_loaded = False
        # first blocks of addresses that the latest look could not read
        self._unread_blocks: set[int] = set()

    def restart(self) -> None:
        """Forget what was read: another process may have continued meanwhile."""
        self._watched.clear()
        self._has_loaded = False
        self._look_at_us = self._reload_at_us = 0
        self._seen_rewinds = None

    async def run_turn(self) -> None:
        """Look at all open addresses, if it is time; accept what is paid."""
        reader, steady_us = self._rail.deposits, self._app.clock.steady_us()
        if reader is None or self._rail.addresses is None or steady_us < self._look_at_us:
            return
        self._look_at_us = steady_us + _LOOK_US
        await self._load(steady_us)
        if not self._watched:
            return
        fault = await catch_unavailable(self._forget_replaced())
        if fault is None:
            fault = await catch_unavailable(self._look(reader))
            await self._accept_paid()
        if fault is not None:
            self._look_at_us = steady_us + _RETRY_US
            _log.warning("%s: deposits are not read yet: %s", self._rail.chain_id, fault)

    async def _accept_paid(self) -> None:
        for watched in list(self._watched.values()):
            if not watched.is_over and watched.has_enough:
                await self._accept_isolated(watched)

    async def _accept_isolated(self, watched: AddressWatch) -> None:
        payment_id, chain_id = watched.row.payment_id, self._rail.chain_id
        kind = QuarantinedItemKind.PAYMENT
        if self._app.quarantine.contains(kind, chain_id, payment_id):
            return
        try:
            async with self._app.quarantine.isolate(kind, chain_id, payment_id, "accept a deposit"):
                await self._accept(watched)
        except RailUnavailable as error:
            _log.warning("payment %s is accepted later: %s", payment_id, error)

    def has_read(self, option: PaymentOption, block_number: int) -> bool:
        """Return True if it is known what arrived at an option's address up to a final block."""
        watched = self._watched.get(option.payer.rpartition(":")[2])
        if watched is None:
            is_off = self._rail.addresses is None
            return is_off or self._loaded_at_us > option.created_at_us
        return watched.next_block > block_number

    # -- the addresses

    async def _load(self, steady_us: int) -> None:
        """Add the addresses that were opened, and drop those whose time is over."""
        chain_id, store = self._rail.chain_id, self._app.store
        now_us, since_us = self._app.clock.now_us(), 0
        is_reload = steady_us >= self._reload_at_us
        if not is_reload:
            since_us = self._loaded_at_us - _OVERLAP_US
        if not self._has_loaded:
            self._cursor = await store.read(deposits.find_cursor(chain_id))
        most = self._rail.addresses.watched_max if self._rail.addresses else 0
        rows = await store.read(
            deposit_addresses.list_watched(chain_id, since_us, now_us // 1_000_000, most)
        )
        await self._add([row for row in rows if row.address not in self._watched])
        if is_reload:
            self._reload_at_us = steady_us + _RELOAD_US
            current = {row.address: row for row in rows}
            for address in self._watched.keys() - current.keys():
                del self._watched[address]
            if self._has_loaded and self._watched:
                # all addresses that exist are read up to there
                self._cursor = min(watched.next_block for watched in self._watched.values()) - 1
                await store.write(deposits.move_cursor(chain_id, self._cursor))
        self._has_loaded = True
        self._loaded_at_us = now_us

    async def _add(self, rows: Sequence[WatchedDepositAddress]) -> None:
        if not rows:
            return
        # addresses that share a first block share their queries
        first = min(row.from_block for row in rows)
        if not self._has_loaded and self._cursor is not None:
            first = max(first, self._cursor + 1)
        for row in rows:
            is_over = row.status is not PaymentStatus.REQUIRES_ACTION
            self._watched[row.address] = AddressWatch(row, first, is_over=is_over)
        for start in range(0, len(rows), _PER_QUERY):
            part = [row.address for row in rows[start : start + _PER_QUERY]]
            recorded = await self._app.store.read(
                deposits.list_of_addresses(self._rail.chain_id, part)
            )
            for deposit, is_final, _ in recorded:
                watched = self._watched[deposit.address]
                (watched.final if is_final else watched.pending)[get_deposit_key(deposit)] = deposit

    # -- the chain

    async def _forget_replaced(self) -> None:
        """Forget deposits in final blocks that a reorganization replaced, and read on there."""
        rewinds, blocks = self._follower.rewind_count, self._rail.blocks
        if rewinds == self._seen_rewinds or blocks is None:
            return
        below = get_first_watched_block(self._follower, self._rail)
        places = {
            (deposit.block_number, deposit.block_hash)
            for watched in self._watched.values()
            for deposit in watched.final.values()
            if deposit.block_number >= below
        }
        gone, is_sure = set(), True
        for number, block_hash in places:
            is_gone = await is_block_gone(self._follower, blocks, number, block_hash)
            if is_gone is None:
                is_sure = False
            elif is_gone:
                gone.add((number, block_hash))
        for watched in self._watched.values():
            await self._forget_since(watched, gone)
        if is_sure:
            self._seen_rewinds = rewinds

    async def _forget_since(self, watched: AddressWatch, gone: Collection[tuple[int, str]]) -> None:
        """Forget an address's deposits from the first replaced block on."""
        numbers = [
            deposit.block_number
            for deposit in watched.final.values()
            if (deposit.block_number, deposit.block_hash) in gone
        ]
        if not numbers:
            return
        first, chain_id = min(numbers), self._rail.chain_id
        vanished = [item for item in watched.final.items() if item[1].block_number >= first]
        await self._app.store.write(
            deposits.forget_final(chain_id, [deposit for _, deposit in vanished], first - 1)
        )
        for key, _ in vanished:
            del watched.final[key]
        watched.next_block = min(watched.next_block, first)
        watched.coin = None
        self._cursor = (
            watched.next_block - 1 if self._cursor is None else min(self._cursor, first - 1)
        )
        _log.error(
            "%s: a reorganization removed final deposits at %s of payment %s",
            chain_id,
            watched.row.address,
            watched.row.payment_id,
        )

    async def _look(self, reader: DepositReader) -> None:
        """Read all blocks that were not final at the last look, for all addresses.

        Raise RailUnavailable after the others if some could not be read; they are the last ones of
        the next look.
        """
        by_block: dict[int, list[AddressWatch]] = {}
        for watched in self._watched.values():
            by_block.setdefault(watched.next_block, []).append(watched)
        faults: list[RailUnavailable] = []
        unread, self._unread_blocks = self._unread_blocks, set()
        for first, group in sorted(by_block.items(), key=lambda item: (item[0] in unread, item[0])):
            for start in range(0, len(group), _PER_QUERY):
                if len(faults) == _FAULTS_MAX:
                    self._unread_blocks |= unread
                    raise faults[0]
                part = group[start : start + _PER_QUERY]
                fault = await catch_unavailable(self._read(reader, part, first))
                if fault is not None:
                    faults.append(fault)
                    self._unread_blocks.add(first)
        # addresses that are nearly as far share their next queries
        least = min(watched.next_block for watched in self._watched.values())
        for watched in self._watched.values():
            if watched.coin is None and watched.next_block - least <= _SHARED_BLOCKS:
                watched.next_block = least
        if faults:
            raise faults[0]

    async def _read(self, reader: DepositReader, part: Sequence[AddressWatch], first: int) -> None:
        """Read a part of the addresses, and store what changed since the last look.

        Raise RailUnavailable after the others if coin could not be read.
        """
        activity = await reader.read_activity([watched.row.address for watched in part], first)
        coin_deposits: list[Deposit] = []
        fault: RailUnavailable | None = None
        try:
            coin_deposits = await self._find_coin(reader, part, activity)
        except RailUnavailable as error:
            # tokens do not wait for it
            fault, part = error, [watched for watched in part if not self._awaits_coin(watched)]
        by_address = {watched.row.address: watched for watched in part}
        arrivals = [
            deposit
            for deposit in (*activity.deposits, *coin_deposits)
            if deposit.address in by_address
        ]
        settled = min(activity.final, activity.last)
        arrived: dict[str, dict[DepositKey, Deposit]] = {address: {} for address in by_address}
        for deposit in arrivals:
            arrived[deposit.address][get_deposit_key(deposit)] = deposit
        changes = DepositChanges()
        for address, watched in by_address.items():
            changes.add(watched, arrived[address], settled)
        if changes.final or changes.pending or changes.removed:
            await self._store(changes, by_address, arrived, settled)
        for address, watched in by_address.items():
            watched.take(arrived[address], settled)
        if settled >= first:
            _move_coin(by_address, arrivals, activity, settled)
            for watched in part:
                watched.next_block = settled + 1
        if fault is not None:
            raise fault

    async def _store(
        self,
        changes: DepositChanges,
        by_address: Mapping[str, AddressWatch],
        arrived: Mapping[str, dict[DepositKey, Deposit]],
        settled: int,
    ) -> None:
        """Store changes, and report the deposits that are new."""
        app, chain_id = self._app, self._rail.chain_id
        new: dict[str, set[Deposit]] = defaultdict(set)
        for deposit in (*changes.final, *changes.pending):
            is_final, key = deposit.block_number <= settled, get_deposit_key(deposit)
            is_known = key in by_address[deposit.address].pending
            # what has no transaction can be another deposit after a reorganization
            if (is_final and not deposit.tx_hash) or (deposit.tx_hash and not is_known):
                new[deposit.address].add(deposit)
        reports: list[NamedReport] = []
        for address, new_deposits in new.items():
            watched = by_address[address]
            everything = sorted({**watched.final, **arrived[address]}.items())
            reports += await build_seen_reports(
                app,
                chain_id,
                AddressPrice(watched.row.payment_id, watched.row.asset, watched.row.value),
                sorted((item for _, item in everything), key=lambda item: item.block_number),
                new_deposits,
                settled,
            )
        recorded = deposits.record(
            chain_id,
            changes.final,
            changes.pending,
            changes.removed,
            reports,
            app.clock.now_us(),
        )
        for payment in await app.store.write(recorded):
            app.notifier.publish_payment(payment)

    async def _find_coin(
        self, reader: DepositReader, part: Iterable[AddressWatch], activity: AddressActivity
    ) -> list[Deposit]:
        """Return the coin that arrived at addresses that wait for coin."""
        coin_asset = self._rail.native_asset
        waiting = [watched for watched in part if self._awaits_coin(watched)]
        if not waiting or activity.first > activity.last:
            return []
        if unread := [watched for watched in waiting if watched.coin is None]:
            places = {(watched.row.address, coin_asset) for watched in unread}
            try:
                balances = await reader.read_balances(places, max(0, activity.first - 1))
            except RailUnavailable:
                # most nodes have the states of few blocks, fewer than come in a longer outage
                balances = await self._count_coin(reader, unread, activity.first)
            for watched in unread:
                watched.coin = balances[watched.row.address, coin_asset]
        balances_before = {watched.row.address: watched.coin or 0 for watched in waiting}
        arrivals = await reader.find_coin_deposits(balances_before, activity)
        if all(deposit.sender for deposit in arrivals):
            return arrivals
        # after a restart, blocks are read again whose states the node may have lost meanwhile
        recorded = [
            deposit
            for watched in waiting
            for deposit in watched.final.values()
            if deposit.asset == coin_asset and deposit.block_number >= activity.first
        ]
        return [
            deposit
            for address in balances_before
            for deposit in explain_unknown(
                [item for item in arrivals if item.address == address],
                [item for item in recorded if item.address == address],
            )
        ]

    def _awaits_coin(self, watched: AddressWatch) -> bool:
        coin_asset = self._rail.native_asset  # a fee token is no coin, and has logs
        return watched.row.asset == coin_asset and _COIN_NAMESPACE in coin_asset

    async def _count_coin(
        self, reader: DepositReader, part: Iterable[AddressWatch], first: int
    ) -> dict[tuple[str, str], int]:
        """Return the coin at addresses before a block, by records and the logs of what left."""
        coin_asset, start = self._rail.native_asset, first
        counted: dict[tuple[str, str], int] = {}
        holding: list[str] = []
        for watched in part:
            address = watched.row.address
            counted[address, coin_asset] = sum(
                deposit.value
                for deposit in watched.final.values()
                if deposit.asset == coin_asset and deposit.block_number < first
            )
            if counted[address, coin_asset]:
                holding.append(address)
                start = min(start, watched.row.from_block)
        while holding and start < first:
            activity = await reader.read_activity(holding, start)
            for address, value, block_number in _list_coin_departures(activity):
                if block_number < first:
                    counted[address, coin_asset] -= value
            start = activity.last + 1
        return counted

    # -- what is paid

    async def _accept(self, watched: AddressWatch) -> None:
        """Accept the chain's evidence in place of a wallet's confirm."""
        app, rail, now_us = self._app, self._rail, self._app.clock.now_us()
        arrived = watched.list_arrived()
        if await sum_unblocked(app, rail.chain_id, arrived) < watched.row.value:
            # blocked money counts for nothing, and goes home at the end
            return
        matched = await app.store.read(
            deposit_addresses.find_payment(rail.chain_id, watched.row.address)
        )
        if matched is None:
            return
        payment, option = matched
        current = payment.with_expiry(now_us)
        end_s = payment.expires_at if option.expires_at is None else option.expires_at
        if current.status is not PaymentStatus.REQUIRES_ACTION or now_us >= end_s * 1_000_000:
            watched.is_over = True
            return
        payer = await find_return_account(app, rail, option)
        outputs: tuple[str, ...] = ()
        digest = results.compute_digest(option.id, list(outputs))
        newest = max(deposit.block_number for deposit in arrived)
        changed_payment = await app.store.write(
            payments.accept(
                Confirmation(payment.id, option.id, outputs, digest, now_us),
                option,
                option.first_block(rail.reorg_depth, newest),
                ("unknown", None),
                now_us,
                cause=PaymentStateEvent.SEEN_ON_CHAIN,
                payer=payer,
            )
        )
        if changed_payment is not None:
            watched.is_over = True
            app.notifier.publish_payment(changed_payment)


def _move_coin(
    by_address: dict[str, AddressWatch],
    arrivals: Sequence[Deposit],
    activity: AddressActivity,
    settled: int,
) -> None:
    """Bring balances of coin up to the last block that is read for good."""
    for deposit in arrivals:
        watched = by_address[deposit.address]
        if watched.coin is not None and deposit.block_number <= settled:
            watched.coin += deposit.value if deposit.asset == watched.row.asset else 0
    for address, value, block_number in _list_coin_departures(activity):
        if (
            address in by_address
            and (watched := by_address[address]).coin is not None
            and block_number <= settled
        ):
            watched.coin -= value


def _list_coin_departures(activity: AddressActivity) -> list[tuple[str, int, int]]:
    """Return the addresses that coin left, with how much in which block."""
    payments = [
        (event.payer, event.token, event.value, event.block_number) for event in activity.payments
    ]
    transfers = [
        (transfer.address, transfer.token, transfer.value, transfer.block_number)
        for transfer in activity.home_transfers
    ]
    return [
        (address, value, block_number)
        for address, token, value, block_number in (*payments, *transfers)
        if token == _COIN_TOKEN
    ]
