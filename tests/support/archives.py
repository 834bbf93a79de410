"""Support for tests of the archive: payments and transactions that ended in every way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from florin_server.base.clock import TestClock
from florin_server.db.engine.store import Store
from florin_server.domain.archive import ArchiveMonth, get_archive_month
from florin_server.domain.ids import generate_payment_id
from florin_server.domain.payments.payment import CancellationReason, Payment
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    LedgerPosting,
    TransactionOutcome,
    TransactionVariant,
    TxState,
    WatchedTransaction,
)
from florin_server.money.archive.service import archiving, transactions
from florin_server.money.archive.service.reader import PaymentArchive
from florin_server.money.archive.store import closed_transactions, files, rows
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.money.archive.store.rows import TRANSACTION_TABLES, StoredRow
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import chain_txs, payment_outcomes
from florin_server.settings import Settings

from tests.support.store_covered import no_watch
from tests.support.store_factories import (
    LATER_US,
    LEASE,
    NOW_US,
    acquire_lease,
    create_processing_payment,
    make_chain_tx,
    make_option,
    make_payment,
    make_resolved_build,
    make_success,
)

DAYS = 60
LATE_US = NOW_US + 130 * 86_400_000_000
BEFORE_US = LATE_US - DAYS * 86_400_000_000


@dataclass
class ArchiveHarness:
    """A service as far as the archive needs it, long after its payments."""

    store: Store
    archive: PaymentArchive
    settings: Settings
    clock: Any
    randbytes: Any = os.urandom

    @property
    def end(self) -> ArchiveMonth:
        """Return the first month that stays."""
        return get_archive_month(BEFORE_US)

    async def write_all(self) -> list[ArchiveFile]:
        """Write all files, and leave the rows."""
        written, after_id = [], archiving.FIRST_ID
        while True:
            result = await archiving.write_file(
                self, self.archive.folder, after_id, self.end, LATE_US
            )
            if result.file is None:
                return written
            written.append(result.file)
            after_id = result.last_id

    async def remove_all(self) -> int:
        """Delete the rows of all files."""
        unremoved = await self._list_unremoved(has_transactions=False)
        months = groupby(unremoved, lambda file: file.month)
        removals = [
            await archiving.remove_payments(self, self.archive.folder, list(month_files))
            for _, month_files in months
        ]
        return sum(removals)

    async def write_transactions(self) -> list[ArchiveFile]:
        """Write all files of transactions, and leave the rows."""
        written, after = [], closed_transactions.FIRST
        while True:
            result = await transactions.write_file(self, self.archive.folder, after, BEFORE_US)
            if result.file is None:
                return written
            written.append(result.file)
            after = result.last

    async def remove_transactions(self) -> int:
        """Delete the rows of all files of transactions."""
        return sum(
            [
                await transactions.remove_transactions(self, self.archive.folder, file, BEFORE_US)
                for file in await self._list_unremoved(has_transactions=True)
            ]
        )

    async def _list_unremoved(self, *, has_transactions: bool) -> list[ArchiveFile]:
        unremoved = await self.store.read(files.list_unremoved(100))
        return [file for file in unremoved if file.has_transactions is has_transactions]


def make_harness(store: Store, folder: Path, **settings: Any) -> ArchiveHarness:
    """Return a service whose archive is in a folder."""
    config = {"folder": folder, "payment_days": DAYS, **settings}
    return ArchiveHarness(
        store,
        PaymentArchive(store, lambda: LATE_US, folder),
        Settings.model_validate({"archive": config}),
        TestClock(LATE_US),
    )


def make_dated_payment(**changes: Any) -> Payment:
    """Return a payment whose id has the time of its creation."""
    payment = make_payment(**changes)
    return replace(payment, id=generate_payment_id(payment.created_at_us, os.urandom))


async def create_dated_payment(store: Store, **changes: Any) -> Payment:
    """Store a payment with two options and a resolved build of the first."""
    payment = make_dated_payment(**changes)
    await store.write(payments.create(payment))
    chosen, other = make_option(payment), make_option(payment, id="opt_2", reference=None)
    await store.write(payments.put_options([chosen, other]))
    await store.write(payments.put_resolved_build(make_resolved_build(payment)))
    return payment


async def create_succeeded_payment(
    store: Store, postings: Sequence[LedgerPosting] | None = None, **changes: Any
) -> Payment:
    """Store a payment whose money arrived at the merchant."""
    payment = await create_processing_payment(store, await create_dated_payment(store, **changes))
    outcome = replace(
        make_success(payment),
        tx_hash=f"0x{payment.id}",
        watched_transaction=WatchedTransaction(f"0x{payment.id}", 7, "0xblock"),
        position=3,
    )
    if postings is not None:
        outcome = replace(outcome, postings=postings)
    await store.write(payment_outcomes.finalize([outcome], [], LATER_US))
    ended = await store.payments.find(payment.id)
    assert ended is not None
    return ended


async def create_cancelled_payment(store: Store, **changes: Any) -> Payment:
    """Store a payment that the merchant cancelled."""
    payment = await create_dated_payment(store, **changes)
    await store.write(payments.cancel(payment.id, CancellationReason.BY_MERCHANT, LATER_US))
    ended = await store.payments.find(payment.id)
    assert ended is not None
    return ended


async def create_ended_transaction(
    store: Store, *paid: Payment, state: TxState = TxState.FINAL, **changes: Any
) -> ChainTx:
    """Store a transaction whose fee was raised before it ended, and that nothing watches."""
    tx, epoch = make_chain_tx(*paid, **changes), await acquire_lease(store)
    await store.write(chain_txs.append(tx, epoch, LEASE, no_watch()))
    variant = TransactionVariant(b"\x02raised", f"{tx.hash}-raised")
    await store.write(chain_txs.bump(tx, variant, epoch, LEASE, NOW_US))
    outcome = (
        TransactionOutcome(tx.id, state, 7, "0xblock", final_hash=variant.hash)
        if state is TxState.FINAL
        else TransactionOutcome(tx.id, state)
    )
    await store.write(chain_txs.finalize_transactions([outcome], LATER_US))
    return tx


async def read_transaction(store: Store, tx: ChainTx) -> dict[str, list[StoredRow]]:
    """Return the rows of a transaction by table."""
    return await store.read(rows.read_rows(TRANSACTION_TABLES, [tx.id]))
