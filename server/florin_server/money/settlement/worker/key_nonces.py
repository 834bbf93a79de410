"""Nonces of Florin's keys, and those that the chain has and the store lacks: it lost data.

A lagging standby that was promoted, or a restored disk, lacks the newest rows. Their payouts would
be paid again. A key that was used elsewhere looks the same.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.money.settlement.store import used_nonces
from florin_server.operations.store import executors
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import TreasuryTransaction


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# one search takes about thirty node calls
_LOOKUP_MAX = 100


async def recover(
    app: _Context,
    rail: Rail,
    sender: str,
    open_txs: Iterable[ChainTx],
    adopt: Callable[[Mapping[int, TreasuryTransaction | None]], Awaitable[None]] | None,
) -> None:
    """Pause all payouts if the chain used nonces of an address that the store never did.

    At the first check of an address its used nonces are stored as known. `adopt` receives the
    transactions of the lost ones, at most of the newest hundred; once it returns, all are stored as
    known. A transaction of `florin chain deploy` is no loss.
    """
    nonces = rail.account_nonces
    if nonces is None:
        return
    # pending ones as well: they can be in a block by the time of a payout
    used = await nonces.get_next_nonce(sender)
    stored = await app.store.read(used_nonces.find_next_nonce(rail.chain_id, sender))
    note = used_nonces.record_next_nonce(rail.chain_id, sender, used)
    if stored is None:
        await app.store.write(note)
        return
    lost = range(max([stored, *(tx.nonce + 1 for tx in open_txs)]), used)
    if not lost:
        return
    transactions = {
        number: await nonces.find_transfer(sender, number) for number in lost[-_LOOKUP_MAX:]
    }
    if len(lost) > len(transactions) or not is_all_setup(transactions.values()):
        count = f"{len(lost)} transactions" if len(lost) > 1 else "a transaction"
        await pause_payouts(
            app, f"{rail.chain_id} has {count} of {sender} that the store does not know"
        )
        if adopt is not None:
            await adopt(transactions)
    await app.store.write(note)


def is_all_setup(transfers: Iterable[TreasuryTransaction | None]) -> bool:
    """Return whether all transactions are known to move nothing, as setting a chain up does."""
    return all(transaction is not None and transaction.is_setup for transaction in transfers)


async def get_next_nonce(
    app: StorageContext, rail: Rail, sender: str, open_txs: Iterable[ChainTx]
) -> int:
    """Return the nonce after the newest own transaction that the chain has or will get.

    Stored transactions count only if the chain agrees: a chain that was started again begins at
    zero, and a gap would never close.
    """
    after = [tx.nonce + 1 for tx in open_txs]
    stored = await app.store.read(used_nonces.find_next_nonce(rail.chain_id, sender))
    nonces = rail.account_nonces
    if nonces is None:
        # the numbers only distinguish Florin's own transactions
        return max([stored or 0, *after])
    nonce = max([await nonces.get_next_nonce(sender), *after])
    if stored is None or stored <= nonce:
        return nonce
    return stored if await nonces.is_nonce_used(sender, stored - 1) else nonce


async def pause_payouts(app: _Context, reason: str) -> None:
    """Pause all payouts until the operator resumes them."""
    _log.critical("payouts are paused: %s", reason)
    await app.store.write(
        executors.pause_untrusted(list_payout_accounts(app), app.clock.now_us(), reason)
    )
    app.notifier.publish(Topic.EXECUTORS)


def list_payout_accounts(app: ChainContext) -> list[str]:
    """Return the accounts (CAIP-10) of all keys that pay out."""
    return [f"{rail.chain_id}:{rail.payouts.sender}" for rail in app.rails.values() if rail.payouts]
