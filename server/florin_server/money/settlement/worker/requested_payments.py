"""Finds the transactions that wallets fetched, or made, by a link and sent themselves.

All transactions of a payment name one address, and the chain is asked for that address while the
payment waits, and for an hour longer, so that late money is noticed. The address of a link is asked
for again later, once a day. What others do with an address
costs them fees and costs Florin little: only transactions with the note of an option are read, and
those without a note where a wallet could have made the transfer itself. Each is read once, and all
addresses share what is read at a time. Transfers by x402 are known by their signatures, and are
read in the same way once they are final.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.payments.payment import PaymentOption, PaymentStatus
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.store import offered_options, watched_addresses
from florin_server.money.payments.store.watched_addresses import WatchedAddress
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.late_transfers import LateTransfers
from florin_server.money.settlement.worker.transfer_links import TransferLinks
from florin_server.money.x402 import store as facilitations
from florin_server.money.x402.store import SettledTransfer
from florin_server.rails.protocol import Rail, is_requested
from florin_server.rails.roles import TransactionRequests
from florin_server.rails.types import (
    TRANSFER_METHOD,
    AddressMention,
    MentionQuery,
    RailUnavailable,
)


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_LOOK_US: Final = 1_000_000
# after a node that does not answer
_RETRY_US: Final = 10_000_000
# the store is read for what wallets fetched since a moment before the last look, and now and then
# for everything: clocks of processes differ
_OVERLAP_US: Final = 10_000_000
_RELOAD_US: Final = 60_000_000
_WATCHED_MAX: Final = 50_000
# a wallet sends soon after it fetched; ended payments are looked at for late money only
_FRESH_US: Final = 120_000_000
_FRESH_PAUSE_US, _WAITING_PAUSE_US, _ENDED_PAUSE_US = 1_000_000, 10_000_000, 120_000_000
# addresses of one look, and those of them that are not fresh
_LOOKS_MAX, _SLOW_LOOKS_MIN = 100, 20
# transactions that one look reads, and how many of them each address has for sure
_READS_MAX, _READS_EACH_MIN = 100, 10
# transactions that wait to be read for one address: until then its listing pauses
_UNREAD_MAX: Final = 2_000
# transactions of one address that are recognized by their hash when a list is read again
_SEEN_MAX: Final = 10_000
# an address is listed from its start again, as a node can add transactions to its past
_RELIST_US: Final = 60_000_000


@dataclass(slots=True)
class _AddressProgress:
    """Up to where the transactions of an address are listed and read."""

    watched: WatchedAddress
    due_us: int
    relist_at_us: int
    newest: str = ""  # the transaction up to which the last complete listing came
    next_newest: str = ""  # the same for the listing under way
    before: str = ""  # the last transaction of the listing under way
    unread: dict[str, str] = field(default_factory=dict)  # references by transaction
    seen: OrderedDict[str, None] = field(default_factory=OrderedDict)
    read_at_us: int = 0
    # of a single look: what is older was read before, and how far this one came
    from_block: int = 0
    read_to: int | None = None
    is_listed: bool = False

    def to_query(self) -> MentionQuery:
        return MentionQuery(self.watched.address, before=self.before, until=self.newest)

    def take_page(
        self, page: Sequence[AddressMention], *, is_last: bool, reads_all: bool = False
    ) -> bool:
        """Take the next page of the listing, the newest transaction first.

        With `reads_all` a transaction can pay without a note. Return True if nothing is left to
        list.
        """
        recent = [
            mention
            for mention in page
            if mention.block_number is None or mention.block_number >= self.from_block
        ]
        is_last = is_last or len(recent) < len(page)
        for mention in recent:
            self.read_to = max(self.read_to or 0, mention.block_number or 0) or None
            is_read = mention.reference or (reads_all and not mention.is_failed)
            if is_read and mention.tx_hash not in self.seen:
                self.queue(mention.tx_hash, mention.reference)
        while len(self.seen) > _SEEN_MAX:
            self.seen.popitem(last=False)
        if page and not self.before:
            self.next_newest = page[0].tx_hash
        if is_last:
            self.newest, self.next_newest = self.next_newest or self.newest, ""
            self.before = ""
            self.is_listed = True
        else:
            self.before = page[-1].tx_hash
        return is_last

    def queue(self, tx_hash: str, reference: str = "") -> None:
        """Let a transaction be read once."""
        self.unread[tx_hash] = reference
        self.seen[tx_hash] = None

    def list_next(self, count: int) -> list[tuple[str, str]]:
        """Return transactions to read next, with their references, one of each reference in turn.

        So copies of one account's note do not delay the payment of another account. Transactions
        without a note take turns like those of one more account.
        """
        hashes_by_reference: dict[str, list[str]] = {}
        for tx_hash, reference in self.unread.items():
            hashes_by_reference.setdefault(reference, []).append(tx_hash)
        turns = zip_longest(*hashes_by_reference.values())
        in_turn = (tx_hash for turn in turns for tx_hash in turn if tx_hash is not None)
        return [(tx_hash, self.unread[tx_hash]) for tx_hash in islice(in_turn, count)]

    def restart(self) -> None:
        """List the address from its start; transactions that were read are not read again."""
        self.newest = self.next_newest = self.before = ""


class RequestedPayments:
    """The addresses of one chain, and how far each is read; a restart begins anew."""

    def __init__(self, app: _Context, rail: Rail, direct_payments: DirectPayments) -> None:
        self._app = app
        self._rail = rail
        self._direct_payments = direct_payments
        self._links = TransferLinks(app, rail)
        self._late_transfers = LateTransfers(app, rail)
        self._addresses: dict[str, _AddressProgress] = {}  # by payment
        self._look_at_us = self._reload_at_us = 0
        self._has_settled = True
        app.notifier.subscribe(Topic.FACILITATION, self._expect_settled)

    def _expect_settled(self) -> None:
        self._has_settled = True

    async def run_turn(self, items: Mapping[str, SettlementItem]) -> None:
        """Look at the addresses that are due; nothing else waits for a chain that is silent.

        `items` are as for `DirectPayments.adopt`.
        """
        requests, steady_us = self._rail.transaction_requests, self._app.clock.steady_us()
        if requests is None or steady_us < self._look_at_us:
            return
        self._look_at_us = steady_us + _LOOK_US
        if lost := {event.tx_hash for event in self._direct_payments.take_lost_events()}:
            # nodes differ about them: they are read again
            for progress in self._addresses.values():
                for tx_hash in lost & progress.seen.keys():
                    del progress.seen[tx_hash]
                    progress.restart()
            self._has_settled = True
        await self._load(steady_us)
        await self._add_settled()
        await self._add_late(steady_us)
        try:
            await self._list(requests, steady_us)
            await self._read(requests, items)
            await self._complete_late()
        except RailUnavailable as error:
            self._look_at_us = steady_us + _RETRY_US
            text = "%s: transactions that wallets sent are not read yet: %s"
            _log.warning(text, self._rail.chain_id, error)

    async def _load(self, steady_us: int) -> None:
        chain_id, store = self._rail.chain_id, self._app.store
        now_us, since_us = self._app.clock.now_us(), 0
        if is_reload := steady_us >= self._reload_at_us:
            self._reload_at_us = steady_us + _RELOAD_US
            await store.write(watched_addresses.forget_ended(chain_id, now_us // 1_000_000))
        else:
            since_us = now_us - _OVERLAP_US
        listed = await store.read(watched_addresses.list_watched(chain_id, since_us, _WATCHED_MAX))
        await self._links.load([item.payment_id for item in listed if self._is_changed(item)])
        for watched in listed:
            progress = self._addresses.get(watched.payment_id)
            if progress is None:
                self._addresses[watched.payment_id] = _AddressProgress(
                    watched, steady_us, steady_us + _RELIST_US
                )
            elif progress.watched != watched:
                if watched.asked_at_us != progress.watched.asked_at_us:
                    progress.due_us = steady_us
                progress.watched = watched
        if is_reload:
            payment_ids = {watched.payment_id for watched in listed}
            payment_ids.update(self._late_transfers.payment_ids)
            self._addresses = {
                payment_id: progress
                for payment_id, progress in self._addresses.items()
                if payment_id in payment_ids
            }
            self._links.forget_others(payment_ids)
            self._has_settled = True

    async def _add_settled(self) -> None:
        """Queue the final transfers by x402 of payments that they have not paid."""
        if not self._has_settled:
            return
        self._has_settled = False
        settled = await self._app.store.read(facilitations.list_settled(self._rail.chain_id))
        new = [item for item in settled if self._is_unseen(item)]
        await self._links.load({item.payment_id for item in new})
        for item in new:
            self._addresses[item.payment_id].queue(item.tx_hash)

    async def _add_late(self, steady_us: int) -> None:
        """Add the addresses that are no longer watched and are due for a look."""
        looks = await self._late_transfers.claim(self._addresses.keys())
        if not looks:
            return
        payment_ids = [look.watched.payment_id for look in looks]
        await self._links.load(payment_ids)
        settled = await self._app.store.read(
            facilitations.list_settled_for(self._rail.chain_id, payment_ids)
        )
        for look in looks:
            self._late_transfers.begin(look)
            self._addresses[look.watched.payment_id] = _AddressProgress(
                look.watched, steady_us, steady_us + _RELIST_US, from_block=look.from_block
            )
        for item in settled:
            self._addresses[item.payment_id].queue(item.tx_hash)

    async def _complete_late(self) -> None:
        """End the looks at addresses of which everything is listed and read."""
        for payment_id in list(self._late_transfers.payment_ids):
            progress = self._addresses[payment_id]
            if progress.is_listed and not progress.unread:
                await self._late_transfers.complete(payment_id, progress.read_to)
                del self._addresses[payment_id]

    def _is_unseen(self, item: SettledTransfer) -> bool:
        progress = self._addresses.get(item.payment_id)
        return progress is not None and item.tx_hash not in progress.seen

    def _is_changed(self, watched: WatchedAddress) -> bool:
        progress = self._addresses.get(watched.payment_id)
        return progress is None or progress.watched.asked_at_us != watched.asked_at_us

    def _get_pause_us(self, watched: WatchedAddress) -> int:
        if watched.status is not PaymentStatus.REQUIRES_ACTION:
            return _ENDED_PAUSE_US
        age_us = self._app.clock.now_us() - watched.asked_at_us
        return _FRESH_PAUSE_US if age_us < _FRESH_US else _WAITING_PAUSE_US

    def _list_due(self, steady_us: int) -> list[_AddressProgress]:
        """Return the addresses to look at now, the longest overdue first."""
        due = sorted(
            (
                progress
                for progress in self._addresses.values()
                if progress.due_us <= steady_us and len(progress.unread) < _UNREAD_MAX
            ),
            key=lambda progress: progress.due_us,
        )
        fresh: list[_AddressProgress] = []
        slow: list[_AddressProgress] = []
        for progress in due:
            is_fresh = self._get_pause_us(progress.watched) == _FRESH_PAUSE_US
            (fresh if is_fresh else slow).append(progress)
        room = _LOOKS_MAX - min(len(slow), _SLOW_LOOKS_MIN)
        fresh = fresh[:room]
        return [*fresh, *slow[: _LOOKS_MAX - len(fresh)]]

    async def _list(self, requests: TransactionRequests, steady_us: int) -> None:
        due = self._list_due(steady_us)
        if not due:
            return
        for progress in due:
            if steady_us >= progress.relist_at_us and not progress.before:
                progress.relist_at_us = steady_us + _RELIST_US
                progress.restart()
        pages = await requests.list_mentions([progress.to_query() for progress in due])
        for progress, page in zip(due, pages, strict=True):
            if page is None:
                progress.due_us = steady_us + _RETRY_US
                continue
            reads_all = self._links.has_links(progress.watched.payment_id)
            is_last = progress.take_page(
                page, is_last=len(page) < requests.page_size, reads_all=reads_all
            )
            pause_us = self._get_pause_us(progress.watched) if is_last else 0
            progress.due_us = steady_us + pause_us

    async def _read(
        self, requests: TransactionRequests, items: Mapping[str, SettlementItem]
    ) -> None:
        """Read some of the listed transactions, a few of each address."""
        queued: list[tuple[_AddressProgress, str, str]] = []
        waiting = [progress for progress in self._addresses.values() if progress.unread]
        if not waiting:
            return
        # an address with many transactions does not keep the others waiting
        share = max(_READS_EACH_MIN, _READS_MAX // len(waiting))
        for progress in sorted(waiting, key=lambda progress: progress.read_at_us):
            part = progress.list_next(min(share, _READS_MAX - len(queued)))
            queued += [(progress, tx_hash, reference) for tx_hash, reference in part]
        options = await self._find_options({reference for _, _, reference in queued if reference})
        candidates: dict[str, PaymentOption] = {}
        mentions: list[tuple[str, str]] = []
        for progress, tx_hash, reference in queued:
            if not reference:
                mentions.append((tx_hash, progress.watched.payment_id))
                continue
            option = options.get(reference)
            # a transaction that names addresses of several payments belongs to that of its note
            if option is not None and option.payment_id == progress.watched.payment_id:
                candidates[tx_hash] = option
        result = await requests.find_events(list(candidates.items()))
        events, unread = list(result.events), result.unread
        if mentions:
            made_events, unread_mentions = await self._links.read(mentions)
            events, unread = [*events, *made_events], unread | unread_mentions
        await self._direct_payments.take_events(events, items)
        for progress, tx_hash, reference in queued:
            progress.read_at_us = self._look_at_us
            del progress.unread[tx_hash]
            if tx_hash in unread:
                # after the others of its address
                progress.unread[tx_hash] = reference

    async def _find_options(self, references: set[str]) -> dict[str, PaymentOption]:
        rows = await self._app.store.read(
            offered_options.list_by_reference(self._rail.chain_id, sorted(references))
        )
        return {
            self._rail.terms.get_reference(option): option
            for _, option in rows
            if is_requested(self._rail, option) and option.method != TRANSFER_METHOD
        }
