"""A server that is killed at any durable step loses nothing that it acknowledged.

A child process does the same work again and again and is killed at another step each time. What it
acknowledged must be there afterwards, and nothing may be half there.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from florin_server.domain.payments.payment import Status
from florin_server.domain.settlement.chain_txs import Posting, TxEnd, TxState
from florin_server.store.ledger import ledger
from florin_server.store.payments import payments
from florin_server.store.payments.idempotency import Replay
from florin_server.store.settlement import chain_txs, used_nonces

from tests.support import postgres
from tests.support.postgres import SQLITE
from tests.support.store_kit import (
    ASSET,
    CHAIN,
    COIN,
    ENGINES,
    LATER_US,
    LEASE,
    beside,
    claim,
    confirmation,
    create_once,
    leased,
    opened,
    option,
    payment,
    success,
    tx,
)

pytestmark = pytest.mark.long

STEPS = ("op", "commit", "committed")
GAS = Posting("expense:gas", "wallet:relayer", COIN, 5)
MADE = [payment() for _ in range(2)]
TX = tx(*MADE, nonce=1)


class Acknowledged:
    """What callers were told, on a file that outlives the child."""

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
        await store.write(create_once(of, claim(of.id), of.id.encode()))
        noted.note("created", of.id)
        await store.write(payments.put_options([option(of)]))
        op = payments.accept(confirmation(of), option(of), 7, (None, None), LATER_US)
        assert await store.write(op)
        noted.note("accepted", of.id)

    async with opened(engine, folder, fault=fault) as store:
        await asyncio.gather(*(begin(store, of) for of in MADE))
        await store.write(
            chain_txs.append(TX, await leased(store), LEASE, chain_txs.claim(TX.item_ids))
        )
        noted.note("signed", TX.id)
        await store.write(chain_txs.sent({TX.id: 8}))
        ends = [TxEnd(TX.id, TxState.FINAL, 9, "0xblock", (GAS,))]
        await store.write(chain_txs.conclude([success(of, 3) for of in MADE], ends, LATER_US))
        noted.note("concluded")


async def check(engine: str, folder: Path) -> None:
    told = Acknowledged(folder).all()
    async with opened(engine, folder) as store:
        found = await store.read(payments.get([of.id for of in MADE]))
        for of in MADE:
            await check_payment(store, of, found.get(of.id), told)
        open_txs = await store.read(chain_txs.open_txs(CHAIN, TX.sender))
        ended = [one for one in found.values() if one.status is Status.SUCCEEDED]
        signed = bool(open_txs) or bool(ended)
        assert signed or f"signed {TX.id}" not in told
        assert await store.read(used_nonces.next_nonce(CHAIN, TX.sender)) == (2 if signed else None)
        assert all(one.raw == TX.raw and one.item_ids == TX.item_ids for one in open_txs)
        assert len(ended) in ({2} if "concluded" in told else {0, 2})
        assert await store.read(ledger.balance("external:shop", ASSET)) == 3 * len(ended)
        assert await store.read(ledger.balance("expense:gas", COIN)) == (5 if ended else 0)
        assert await store.read(ledger.check()) == []
        if engine == SQLITE:
            assert await beside(store, folder, "PRAGMA integrity_check") == [("ok",)]


async def check_payment(store, of, stored, told) -> None:
    # the key is used if and only if the payment exists
    again = await store.write(create_once(payment(), claim(of.id), b"again"))
    assert isinstance(again, Replay) == (stored is not None)
    if stored is None:
        assert f"created {of.id}" not in told
        return
    assert again == Replay(of.id.encode())
    history = await store.read(payments.events(of.id))
    assert [one.version for one in history] == list(range(stored.version + 1))
    assert history[-1].status is stored.status
    bound = await store.read(payments.confirmation(of.id))
    assert (bound is not None) == (stored.status is not Status.REQUIRES_ACTION)
    assert bound is not None or f"accepted {of.id}" not in told


def killed(engine: str, folder: Path, step: str, count: int) -> bool:
    if engine != SQLITE:
        postgres.of(folder)  # by this process: the child's would die with it
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
def test_what_was_acknowledged_survives_a_kill_at_every(step, engine, tmp_path):
    count = 0
    while True:
        count += 1
        folder = tmp_path / f"{count}"
        folder.mkdir()
        was_killed = killed(engine, folder, step, count)
        asyncio.run(check(engine, folder))
        asyncio.run(postgres.forget(folder))
        if not was_killed:
            break
    assert count > 5
