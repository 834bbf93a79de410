"""A backup is made while customers pay, and Florin goes on from it elsewhere.

The chain has gone on meanwhile. Whatever was acknowledged before the backup is in it; payments that
had been offered by then end as the chain tells; nothing is paid out that was paid out since, until
the operator has called that off; then books and chain differ by what the copy cannot know, and by
nothing else. `python -m tests.chaos.restored [seed]`; with `unmarked` behind it the backup does not
say that it is one, as a disk that was put back does not: nonces on the chain say it.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import uvloop
from florin_server.devnet.genesis import DEVNET
from florin_server.store.engine.opening import open_store
from florin_server.store.ledger import ledger
from florin_server.store.payments import history
from florin_server.store.tables.payouts import OWED

from tests.chaos.customers import (
    PRICE,
    SERVED_S,
    Told,
    customers,
    treasury_differs,
    while_they_pay,
    wrong,
)
from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import florin
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, Installation, installed
from tests.support.until import until

# asked for before the backup, and paid after it
REFUNDS = 2
_PAYS_OUT = f"{CHAIN}:{TREASURY.address}"
_ASSET = f"{CHAIN}/erc20:{DEVNET.token.address}"
_STATES = "SELECT id, status FROM payment"
_OWED = f"SELECT count(*) FROM payout WHERE {OWED}"
_REFUNDED = "SELECT count(*) FROM refund WHERE status = 'succeeded'"


class _Copied(NamedTuple):
    """What customers had been told before the backup, and the payments whose options are in it."""

    told: Told
    offered: set[str]


async def campaign(folder: Path, seed: int = 7, *, unmarked: bool = False) -> dict[str, Any]:
    """Counts of what happened; `bad` is what should not have."""
    file, one = folder / "backup.db", folder / "one"
    await asyncio.to_thread(one.mkdir)
    async with installed(one) as at, aiohttp.ClientSession() as session:
        told, before = await _under_load(at, session, file, seed)
        with closing(sqlite3.connect(file)) as raw, raw:
            # it was there only so that something is owed
            raw.execute("DELETE FROM executor_pause")
            if unmarked:
                raw.execute("DELETE FROM installation WHERE name = 'copied_at_us'")
            offered = {one for (one,) in raw.execute("SELECT payment_id FROM payment_option")}
        async with _elsewhere(at, folder / "other", file) as there:
            bad = await _goes_on(there, session, told, _Copied(before, offered))
    counts = {"before": len(before.created), "payments": len(told.created)}
    return {**counts, "refunds": len(told.refunds), "bad": bad}


async def _under_load(
    at: Installation, session: aiohttp.ClientSession, file: Path, seed: int
) -> tuple[Told, Told]:
    """What customers were told in the end, and what they had been told before the backup."""
    told, ends = Told(), asyncio.Event()
    with await asyncio.to_thread(at.lasting, "serve", "--workers", "2"):
        people = await customers(at, at.rest(session), told, seed)
        runs = [asyncio.create_task(one.run(ends)) for one in people]
        # what is owed by then is paid afterwards
        await _asked(at, "executors", "pause", _PAYS_OUT)
        await while_they_pay(runs, lambda: len(told.refunds) >= REFUNDS)
        before = deepcopy(told)
        await _asked(at, "store", "backup", str(file))
        await _asked(at, "executors", "resume", _PAYS_OUT)
        new, more = len(told.created) + 2 * len(people), len(told.refunds) + 1
        await while_they_pay(runs, lambda: len(told.created) >= new and len(told.refunds) >= more)
        ends.set()
        await asyncio.gather(*runs)
        if bad := await wrong(at, session, told):
            raise AssertionError(f"before anything was restored: {bad}")
    return told, before


@asynccontextmanager
async def _elsewhere(at: Installation, folder: Path, file: Path) -> AsyncIterator[Installation]:
    """The backup in a database of its own, with the state folder of whose backup it is."""
    await asyncio.to_thread(shutil.copytree, at.home, folder / "home")
    database = postgres.of(folder)
    env = {**at.env, "FLORIN_STORE": database.dsn}
    there = replace(at, home=folder / "home", env=env)
    await _asked(there, "store", "restore", str(file))
    store = await open_store(database)
    try:
        yield replace(there, store=store)
    finally:
        await store.close()
        await postgres.forget(folder)


async def _asked(at: Installation, *command: str, status: int = 0) -> Any:
    """What a command tells programs."""
    done = await asyncio.to_thread(florin, *command, "--json", home=at.home, **at.env)
    if done.status != status:
        raise AssertionError(f"florin {shlex.join(command)} ended with {done}")
    return json.loads(done.out)


async def _count(at: Installation, query: str) -> int:
    ((count,),) = await postgres.rows(at.env["FLORIN_STORE"], query)
    return int(count)


async def _goes_on(
    there: Installation, session: aiohttp.ClientSession, told: Told, copied: _Copied
) -> list[str]:
    """What is wrong with a copy, before and after the operator has settled what it cannot know."""
    bad = list[str]()
    with await asyncio.to_thread(there.lasting, "serve"):
        bad += await _lost(there, told, copied)
        told_by_doctor = json.dumps(await _asked(there, "doctor", status=1))
        if not any(name in told_by_doctor for name in ("store_restored", "store_behind")):
            bad.append(f"the doctor does not tell what the store lacks: {told_by_doctor}")
        # the operator sees on the chain what was paid; what Florin found there needs nobody
        for one in (await _asked(there, "payouts", "list"))["payouts"]:
            with suppress(AssertionError):
                await _asked(there, "payouts", "refuse", one["payoutId"])
        await until(lambda: _count(there, _OWED), 0, patience_s=SERVED_S)
        await _asked(there, "executors", "resume", _PAYS_OUT)
        bad += await _differs(there, told, copied)
        bad += await _works(there, there.rest(session))
        # that was paid, and paid back
        bad += await treasury_differs(there, session, told)
    bad += [*await there.store.survey(history.check()), *await there.store.read(ledger.check())]
    return bad


async def _lost(there: Installation, told: Told, copied: _Copied) -> list[str]:
    """Payments that should be in the copy, or should end otherwise."""
    wanted = {one: told.final[one] for one in copied.told.final}
    # whatever became of the others since, the chain tells if they were offered
    wanted |= dict.fromkeys(copied.offered & told.confirmed.keys(), "succeeded")
    stored: dict[str, str] = {}

    async def otherwise() -> list[str]:
        stored.update(await postgres.rows(there.env["FLORIN_STORE"], _STATES))
        return [
            f"{one} ended as {end}, and is {stored.get(one)}"
            for one, end in wanted.items()
            if stored.get(one) != end
        ]

    with suppress(AssertionError):
        await until(otherwise, [], patience_s=SERVED_S)
    lost = [f"{one} is lost" for one in copied.told.created.values() if one not in stored]
    return [*lost, *await otherwise()]


async def _differs(there: Installation, told: Told, copied: _Copied) -> list[str]:
    """How far books and chain are apart, beside what was settled and paid since the copy."""
    unknown = len(told.confirmed.keys() - copied.offered)
    since = unknown - (len(told.refunds) - await _count(there, _REFUNDED))
    # gas that was spent since is missing in any case
    found = await _asked(there, "ledger", "check", status=1)
    account = _PAYS_OUT.lower()
    apart = [
        int(one["held"]) - int(one["booked"])
        for one in found["wallets"]
        if (one["account"].lower(), one["asset"].lower()) == (account, _ASSET.lower())
    ]
    if apart != [PRICE * since]:
        return [f"books and chain are {apart} apart, and should be {PRICE * since}"]
    return [f"the books are not whole: {one}" for one in found.get("problems", ())]


async def _works(there: Installation, api: RestApi) -> list[str]:
    """A payment, and a refund of it, as with any other Florin."""
    paid = await there.pay(api)
    if (end := await there.final(api, paid)) != "succeeded":
        return [f"a new payment is {end}"]
    wanted = await _count(there, _REFUNDED) + 1
    await api.refund(paid, "back")
    await until(lambda: _count(there, _REFUNDED), wanted, patience_s=SERVED_S)
    return []


def main() -> None:
    seed, *_ = [*(one for one in sys.argv[1:] if one.isdigit()), "7"]
    with tempfile.TemporaryDirectory() as folder:
        unmarked = "unmarked" in sys.argv
        found = uvloop.run(campaign(Path(folder), int(seed), unmarked=unmarked))
    print(found)
    sys.exit(bool(found["bad"]))


if __name__ == "__main__":
    main()
