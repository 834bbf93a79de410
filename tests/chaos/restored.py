"""Make a backup while customers pay, and continue from it elsewhere.

The chain has continued meanwhile. Everything acknowledged before the backup is in it. Payments
offered by then end according to the chain. Payouts sent since are not repeated, after the operator
has canceled them. The books and the chain then differ only by what the copy cannot know. `python -m
tests.chaos.restored [seed]`; with `unmarked` the backup is not marked as a backup, like a disk that
was put back. Florin then detects it by nonces on the chain.
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
from florin_server.store.tables.payouts import OWED_PREDICATE

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
from tests.support.command import run_florin
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, ProcessInstallation, open_installation
from tests.support.until import wait_until

# requested before the backup, and paid after it
REFUNDS = 2
_PAYS_OUT = f"{CHAIN}:{TREASURY.address}"
_ASSET = f"{CHAIN}/erc20:{DEVNET.token.address}"
_STATES = "SELECT id, status FROM payment"
_OWED = f"SELECT count(*) FROM payout WHERE {OWED_PREDICATE}"
_REFUNDED = "SELECT count(*) FROM refund WHERE status = 'succeeded'"


class _Copied(NamedTuple):
    """The customers' answers before the backup, and the payments whose options are in it."""

    told: Told
    offered: set[str]


async def campaign(folder: Path, seed: int = 7, *, unmarked: bool = False) -> dict[str, Any]:
    """Return counts of what happened; `bad` lists the violations."""
    file, path = folder / "backup.db", folder / "one"
    await asyncio.to_thread(path.mkdir)
    async with open_installation(path) as at, aiohttp.ClientSession() as session:
        result, before = await _under_load(at, session, file, seed)
        with closing(sqlite3.connect(file)) as raw, raw:
            # the pause only made sure that something is owed
            raw.execute("DELETE FROM executor_pause")
            if unmarked:
                raw.execute("DELETE FROM installation WHERE name = 'copied_at_us'")
            offered = {item for (item,) in raw.execute("SELECT payment_id FROM payment_option")}
        async with _elsewhere(at, folder / "other", file) as there:
            bad = await _goes_on(there, session, result, _Copied(before, offered))
    counts = {"before": len(before.created), "payments": len(result.created)}
    return {**counts, "refunds": len(result.refunds), "bad": bad}


async def _under_load(
    at: ProcessInstallation, session: aiohttp.ClientSession, file: Path, seed: int
) -> tuple[Told, Told]:
    """Return the customers' answers at the end, and those before the backup."""
    result, ends = Told(), asyncio.Event()
    with await asyncio.to_thread(at.start_lasting, "serve", "--workers", "2"):
        people = await customers(at, at.rest(session), result, seed)
        runs = [asyncio.create_task(customer.run(ends)) for customer in people]
        # payouts owed by then are sent afterwards
        await _asked(at, "executors", "pause", _PAYS_OUT)
        await while_they_pay(runs, lambda: len(result.refunds) >= REFUNDS)
        before = deepcopy(result)
        await _asked(at, "store", "backup", str(file))
        await _asked(at, "executors", "resume", _PAYS_OUT)
        new, more = len(result.created) + 2 * len(people), len(result.refunds) + 1
        await while_they_pay(
            runs, lambda: len(result.created) >= new and len(result.refunds) >= more
        )
        ends.set()
        await asyncio.gather(*runs)
        if bad := await wrong(at, session, result):
            raise AssertionError(f"before anything was restored: {bad}")
    return result, before


@asynccontextmanager
async def _elsewhere(
    at: ProcessInstallation, folder: Path, file: Path
) -> AsyncIterator[ProcessInstallation]:
    """Restore the backup to a separate database, with the original's state folder."""
    await asyncio.to_thread(shutil.copytree, at.home, folder / "home")
    database = postgres.get_database(folder)
    env = {**at.env, "FLORIN_STORE": database.dsn}
    there = replace(at, home=folder / "home", env=env)
    await _asked(there, "store", "restore", str(file))
    store = await open_store(database)
    try:
        yield replace(there, store=store)
    finally:
        await store.close()
        await postgres.drop_database(folder)


async def _asked(at: ProcessInstallation, *command: str, status: int = 0) -> Any:
    """Run a command; return its JSON."""
    done = await asyncio.to_thread(run_florin, *command, "--json", home=at.home, **at.env)
    if done.status != status:
        raise AssertionError(f"florin {shlex.join(command)} ended with {done}")
    return json.loads(done.out)


async def _count(at: ProcessInstallation, query: str) -> int:
    ((count,),) = await postgres.list_rows(at.env["FLORIN_STORE"], query)
    return int(count)


async def _goes_on(
    there: ProcessInstallation, session: aiohttp.ClientSession, result: Told, copied: _Copied
) -> list[str]:
    """Return a copy's faults, before and after the operator has resolved what it cannot know."""
    bad = list[str]()
    with await asyncio.to_thread(there.start_lasting, "serve"):
        bad += await _lost(there, result, copied)
        told_by_doctor = json.dumps(await _asked(there, "doctor", status=1))
        if not any(name in told_by_doctor for name in ("store_restored", "store_behind")):
            bad.append(f"the doctor does not tell what the store lacks: {told_by_doctor}")
        # the operator sees the paid ones on the chain; what Florin found there needs no one
        for payout in (await _asked(there, "payouts", "list"))["payouts"]:
            with suppress(AssertionError):
                await _asked(there, "payouts", "refuse", payout["payoutId"])
        await wait_until(lambda: _count(there, _OWED), 0, patience_s=SERVED_S)
        await _asked(there, "executors", "resume", _PAYS_OUT)
        bad += await _differs(there, result, copied)
        bad += await _works(there, there.rest(session))
        # that payment was paid and refunded
        bad += await treasury_differs(there, session, result)
    bad += [*await there.store.scan(history.check()), *await there.store.read(ledger.check())]
    return bad


async def _lost(there: ProcessInstallation, result: Told, copied: _Copied) -> list[str]:
    """Return payments that are missing in the copy, or ended differently."""
    expected = {text: result.final[text] for text in copied.told.final}
    # the chain decides about the others, if they were offered
    expected |= dict.fromkeys(copied.offered & result.confirmed.keys(), "succeeded")
    stored: dict[str, str] = {}

    async def otherwise() -> list[str]:
        stored.update(await postgres.list_rows(there.env["FLORIN_STORE"], _STATES))
        return [
            f"{text} ended as {end}, and is {stored.get(text)}"
            for text, end in expected.items()
            if stored.get(text) != end
        ]

    with suppress(AssertionError):
        await wait_until(otherwise, [], patience_s=SERVED_S)
    lost = [f"{text} is lost" for text in copied.told.created.values() if text not in stored]
    return [*lost, *await otherwise()]


async def _differs(there: ProcessInstallation, reported_result: Told, copied: _Copied) -> list[str]:
    """Return how far books and chain differ beyond what was settled and paid since the copy."""
    unknown = len(reported_result.confirmed.keys() - copied.offered)
    since = unknown - (len(reported_result.refunds) - await _count(there, _REFUNDED))
    # the gas spent since is missing in any case
    result = await _asked(there, "ledger", "check", status=1)
    account = _PAYS_OUT.lower()
    apart = [
        int(wallet["held"]) - int(wallet["booked"])
        for wallet in result["wallets"]
        if (wallet["account"].lower(), wallet["asset"].lower()) == (account, _ASSET.lower())
    ]
    if apart != [PRICE * since]:
        return [f"books and chain are {apart} apart, and should be {PRICE * since}"]
    return [f"the books are not whole: {item}" for item in result.get("problems", ())]


async def _works(there: ProcessInstallation, api: RestApi) -> list[str]:
    """Make a payment and refund it, as on any other Florin."""
    paid = await there.pay(api)
    if (end := await there.final(api, paid)) != "succeeded":
        return [f"a new payment is {end}"]
    expected = await _count(there, _REFUNDED) + 1
    await api.refund(paid, "back")
    await wait_until(lambda: _count(there, _REFUNDED), expected, patience_s=SERVED_S)
    return []


def main() -> None:
    seed, *_ = [*(text for text in sys.argv[1:] if text.isdigit()), "7"]
    with tempfile.TemporaryDirectory() as folder:
        unmarked = "unmarked" in sys.argv
        results = uvloop.run(campaign(Path(folder), int(seed), unmarked=unmarked))
    print(results)
    sys.exit(bool(results["bad"]))


if __name__ == "__main__":
    main()
