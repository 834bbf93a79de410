"""Payouts that a lost transaction made: they are taken for sent, and never sent again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.money.payouts.store import payouts
from florin_server.money.settlement.store import chain_txs
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.money.settlement.worker.key_nonces import (
    is_all_setup,
    list_payout_accounts,
    pause_payouts,
)
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.operations.store import executors
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SignedTransaction, TreasuryTransaction


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# of transactions that strangers may have made; each costs a node call
_PAGE_SIZE = 100


async def adopt(
    app: StorageContext,
    rail: Rail,
    queue: TransactionQueue,
    lost_transfers: Mapping[int, TreasuryTransaction | None],
) -> None:
    """Store the payouts that a treasury's transactions made and the store lost, by nonce.

    A payout is recognized by its asset, receiver and value among the waiting payouts, the oldest
    first. If several merchants wait for the same transfer, none is recognized: the operator has to
    decide. Florin follows adopted payouts to their end as if it had just sent them.
    """
    for nonce, sent in lost_transfers.items():
        if sent is None or not sent.asset:
            tx_hash = sent.hash if sent else "not found"
            _log.critical("nonce %d of %s: %s", nonce, queue.key.account, tx_hash)
            continue
        waiting = await app.store.read(
            payouts.list_identical(rail.chain_id, sent.asset, sent.account, sent.value)
        )
        moved = f"{sent.hash} moved {sent.value} of {sent.asset} to {sent.account}"
        if len({(payout.merchant_id, payout.kind) for payout in waiting}) != 1:
            _log.critical(
                "nonce %d of %s: %s, for an unknown payout", nonce, queue.key.account, moved
            )
            continue
        payout = waiting[0]
        _log.critical(
            "nonce %d of %s: %s, as payout %s requires", nonce, queue.key.account, moved, payout.id
        )
        await _record_adopted(app, queue, payout, nonce, SignedTransaction(sent.raw, sent.hash))


async def check_history(app: _Context, rail: Rail, queue: TransactionQueue) -> None:
    """Pause all payouts if the treasury signed what the store does not know, and adopt payouts.

    It checks what is final since the last check, which it stores; the first check only stores.
    """
    history = rail.treasury_history
    if history is None:
        return
    name = f"{installation.TREASURY_HISTORY_PREFIX}{queue.key.account}"
    seen = await app.store.read(installation.find_value(name))
    noted = await history.list_mentions(seen or "")
    if not noted:
        if seen is None:
            # from now on the archive leaves the treasury's transactions in the store
            await app.store.write(installation.put_value(name, ""))
        return
    known_hashes = await app.store.read(
        chain_txs.filter_known_hashes(rail.chain_id, [mention.hash for mention in noted])
    )
    strange = [
        mention for mention in noted if mention.hash not in known_hashes and mention.reference
    ]
    lost = {
        mention.reference: signed
        for mention in (strange[:_PAGE_SIZE] if seen else ())
        if (signed := await history.find_transaction(mention.hash)) is not None
    }
    if lost:
        finding = f"{rail.chain_id} has {len(lost)} transactions of {queue.key.address}"
        await pause_payouts(app, f"{finding} that the store does not know")
    waiting = await app.store.read(payouts.find_many(list(lost)))
    for payout_id, signed in lost.items():
        payout = waiting.get(payout_id)
        _log.critical("%s is the transfer of payout %s", signed.hash, payout_id)
        if payout is not None and payout.status is PayoutStatus.WAITING:
            await _record_adopted(app, queue, payout, queue.key.next_nonce, signed)
    await app.store.write(installation.put_value(name, noted[0].hash))


async def _record_adopted(
    app: StorageContext,
    queue: TransactionQueue,
    payout: Payout,
    nonce: int,
    transaction: SignedTransaction,
) -> None:
    """Claim a waiting payout for a transaction that made it, which the queue follows from now."""
    claim = payouts.claim(payout, transaction.hash, None, None, app.clock.now_us())
    await queue.adopt(payout.id, nonce, transaction, claim)


async def check_database(app: _Context) -> str:
    """Pause all payouts if writes go to another database than before; return which it is."""
    pay_out, now_us = list_payout_accounts(app), app.clock.now_us()

    @operation
    def check() -> Op[tuple[str, str]]:
        # an operation shows the server of its connection
        identity = app.store.identity
        if not identity:
            return "", ""
        return identity, (yield from executors.check_database(pay_out, now_us, identity))

    identity, reason = await app.store.write(check())
    if reason:
        _log.critical("payouts are paused: %s", reason)
        app.notifier.publish(Topic.EXECUTORS)
    return identity


async def pause_for_unknown_transactions(
    app: _Context, rail: Rail, queue: TransactionQueue, ended_txs: Sequence[EndedTransaction]
) -> dict[int, TreasuryTransaction | None]:
    """Pause all payouts if nonces were taken by transactions that the store does not know.

    Return those, by nonce. `ended_txs` are transactions of the queue that are about to be
    concluded.
    """
    nonces = rail.account_nonces
    if nonces is None:
        return {}
    lost = {
        ended_tx.tx.nonce: await nonces.find_transfer(queue.key.address, ended_tx.tx.nonce)
        for ended_tx in ended_txs
        if ended_tx.mined is None and not await _is_recorded(app, rail, queue, ended_tx.tx)
    }
    if is_all_setup(lost.values()):
        return {}
    nonce_list = ", ".join(map(str, lost))
    await pause_payouts(app, f"another transaction of {queue.key.account} has nonce {nonce_list}")
    return lost


async def _is_recorded(
    app: StorageContext, rail: Rail, queue: TransactionQueue, tx: ChainTx
) -> bool:
    """Return True if another transaction with its nonce is stored."""
    at_nonce = chain_txs.list_at_nonce(rail.chain_id, queue.key.address, tx.nonce)
    return any(each_tx.id != tx.id for each_tx in await app.store.read(at_nonce))
