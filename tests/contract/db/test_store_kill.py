"""Test that a server killed at any durable step loses nothing that it acknowledged.

A child process repeats the same work and is killed at another step each time. Everything it
acknowledged must be there afterwards, and nothing can be partial.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting, TransactionOutcome, TxState
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import (
    chain_txs,
    payment_outcomes,
    settlement_items,
    used_nonces,
)

from tests.support import postgres
from tests.support.postgres import SQLITE
from tests.support.store_factories import (
    ASSET,
    CHAIN,
    COIN,
    ENGINES,
    LATER_US,
    LEASE,
    acquire_lease,
    create_once,
    execute_beside,
    make_chain_tx,
    make_claim,
    make_confirmation,
    make_option,
    make_payment,
    make_success,
    open_engine_store,
)

pytestmark = pytest.mark.slow

STEPS = ("op", "commit", "committed")
GAS = LedgerPosting("expense:gas", "wallet:relayer", COIN, 5)
MADE = [make_payment() for _ in range(2)]
TX = make_chain_tx(*MADE, nonce=1)


class Acknowledged:
    """A file of the responses that callers received, which outlives the child."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "acknowledged"
        self._path.touch()

    def note(self, *words: str) -> None:
        with self._path.open("a") as file:
            file.write(" ".join(words) + "\n")

    def all(self) -> set[str]:
        return set(self._path.read_text().splitlines())


async def work(engine: str, folder: Path, deadly_step: str, deadly_count: int) -> None:
    left = deadly_count
    noted = Acknowledged(folder)

    def fault(step: str) -> None:
        nonlocal left
        if step == deadly_step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    async def begin(store, of):
        await store.write(create_once(of, make_claim(of.id), of.id.encode()))
        noted.note("created", of.id)
        await store.write(payments.put_options([make_option(of)]))
        op = payments.accept(make_confirmation(of), make_option(of), 7, (None, None), LATER_US)
        assert await store.write(op)
        noted.note("accepted", of.id)

    async with open_engine_store(engine, folder, fault_hook=fault) as store:
        await asyncio.gather(*(begin(store, of) for of in MADE))
        await store.write(
            chain_txs.append(
                TX, await acquire_lease(store), LEASE, settlement_items.claim(TX.item_ids)
            )
        )
        noted.note("signed", TX.id)
        await store.write(chain_txs.record_broadcasts({TX.id: 8}))
        ends = [TransactionOutcome(TX.id, TxState.FINAL, 9, "0xblock", (GAS,))]
        await store.write(
            payment_outcomes.finalize([make_success(of, 3) for of in MADE], ends, LATER_US)
        )
        noted.note("concluded")


async def check(engine: str, folder: Path) -> None:
    result = Acknowledged(folder).all()
    async with open_engine_store(engine, folder) as store:
        found_payments = await store.read(payments.find_many([of.id for of in MADE]))
        for of in MADE:
            await check_payment(store, of, found_payments.get(of.id), result)
        open_txs = await store.read(chain_txs.list_open(CHAIN, TX.sender))
        ended = [
            payment
            for payment in found_payments.values()
            if payment.status is PaymentStatus.SUCCEEDED
        ]
        signed = bool(open_txs) or bool(ended)
        assert signed or f"signed {TX.id}" not in result
        assert await store.read(used_nonces.find_next_nonce(CHAIN, TX.sender)) == (
            2 if signed else None
        )
        assert all(tx.raw == TX.raw and tx.item_ids == TX.item_ids for tx in open_txs)
        assert len(ended) in ({2} if "concluded" in result else {0, 2})
        assert await store.read(ledger.get_balance("external:shop", ASSET)) == 3 * len(ended)
        assert await store.read(ledger.get_balance("expense:gas", COIN)) == (5 if ended else 0)
        assert await store.read(ledger.check()) == []
        if engine == SQLITE:
            assert await execute_beside(store, folder, "PRAGMA integrity_check") == [("ok",)]


async def check_payment(store, of, stored, result) -> None:
    # the key is used if and only if the payment exists
    again = await store.write(create_once(make_payment(), make_claim(of.id), b"again"))
    assert isinstance(again, StoredResponse) == (stored is not None)
    if stored is None:
        assert f"created {of.id}" not in result
        return
    assert again == StoredResponse(of.id.encode())
    history = await store.read(payments.list_events(of.id))
    assert [item.version for item in history] == list(range(stored.version + 1))
    assert history[-1].status is stored.status
    bound = await store.read(payments.find_confirmation(of.id))
    assert (bound is not None) == (stored.status is not PaymentStatus.REQUIRES_ACTION)
    assert bound is not None or f"accepted {of.id}" not in result


def killed(engine: str, folder: Path, step: str, count: int) -> bool:
    if engine != SQLITE:
        postgres.get_database(folder)  # by this process: the child's would die with it
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(work(engine, folder, step, count))
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step", STEPS)
def test_acknowledged_write_survives_a_kill_at_every_step(step, engine, tmp_path):
    count = 0
    while True:
        count += 1
        folder = tmp_path / f"{count}"
        folder.mkdir()
        was_killed = killed(engine, folder, step, count)
        asyncio.run(check(engine, folder))
        asyncio.run(postgres.drop_database(folder))
        if not was_killed:
            break
    assert count > 5
