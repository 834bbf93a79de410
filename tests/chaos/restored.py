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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import uvloop
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import history

from tests.chaos.customers import (
    PRICE,
    SERVED_S,
    Acknowledgements,
    create_customers,
    find_differences,
    find_treasury_difference,
    wait_while_paying,
)
from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import CommandResult, run_florin
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, ProcessInstallation, open_installation
from tests.support.until import wait_until

# requested before the backup, and paid after it
REFUNDS = 2
_TREASURY_ACCOUNT = f"{CHAIN}:{TREASURY.address}"
_ASSET = f"{CHAIN}/erc20:{DEVNET.token.address}"
_STATES = "SELECT id, status FROM payment"
_OWED = f"SELECT count(*) FROM payout WHERE {OWED_PREDICATE}"
_REFUNDED = "SELECT count(*) FROM refund WHERE status = 'succeeded'"


class _BackupContents(NamedTuple):
    """The customers' answers before the backup, and the payments whose options are in it."""

    acknowledged: Acknowledgements
    offered: set[str]


async def campaign(
    folder: Path,
    seed: int = 7,
    *,
    unmarked: bool = False,
    run_command: Callable[..., CommandResult] = run_florin,
) -> dict[str, Any]:
    """Return counts of what happened; `bad` lists the violations.

    `run_command` runs a command to its end.
    """
    file, path = folder / "backup.db", folder / "one"
    await asyncio.to_thread(path.mkdir)
    async with open_installation(path) as opened, aiohttp.ClientSession() as session:
        installation = replace(opened, run_command=run_command)
        acknowledged, before = await _back_up_under_load(installation, session, file, seed)
        with closing(sqlite3.connect(file)) as raw, raw:
            # the pause only made sure that something is owed
            raw.execute("DELETE FROM executor_pause")
            if unmarked:
                raw.execute("DELETE FROM installation WHERE name = 'copied_at_us'")
            offered = {item for (item,) in raw.execute("SELECT payment_id FROM payment_option")}
        async with _restore_elsewhere(installation, folder / "other", file) as restored:
            bad = await _check_copy(
                restored, session, acknowledged, _BackupContents(before, offered)
            )
    counts = {"before": len(before.created), "payments": len(acknowledged.created)}
    return {**counts, "refunds": len(acknowledged.refunds), "bad": bad}


async def _back_up_under_load(
    installation: ProcessInstallation, session: aiohttp.ClientSession, file: Path, seed: int
) -> tuple[Acknowledgements, Acknowledgements]:
    """Return the customers' answers at the end, and those before the backup."""
    acknowledged, ends = Acknowledgements(), asyncio.Event()
    with await asyncio.to_thread(installation.start_lasting, "serve", "--workers", "2"):
        people = await create_customers(
            installation, installation.rest(session), acknowledged, seed
        )
        runs = [asyncio.create_task(customer.run(ends)) for customer in people]
        # payouts owed by then are sent afterwards
        await _run_command(installation, "executors", "pause", _TREASURY_ACCOUNT)
        await wait_while_paying(runs, lambda: len(acknowledged.refunds) >= REFUNDS)
        before = deepcopy(acknowledged)
        await _run_command(installation, "store", "backup", str(file))
        await _run_command(installation, "executors", "resume", _TREASURY_ACCOUNT)
        payment_target, refund_target = (
            len(acknowledged.created) + 2 * len(people),
            len(acknowledged.refunds) + 1,
        )
        await wait_while_paying(
            runs,
            lambda: (
                len(acknowledged.created) >= payment_target
                and len(acknowledged.refunds) >= refund_target
            ),
        )
        ends.set()
        await asyncio.gather(*runs)
        if bad := await find_differences(installation, session, acknowledged):
            raise AssertionError(f"before anything was restored: {bad}")
    return acknowledged, before


@asynccontextmanager
async def _restore_elsewhere(
    installation: ProcessInstallation, folder: Path, file: Path
) -> AsyncIterator[ProcessInstallation]:
    """Restore the backup to a separate database, with the original's state folder."""
    await asyncio.to_thread(shutil.copytree, installation.home, folder / "home")
    database = postgres.get_database(folder)
    env = {**installation.env, "FLORIN_STORE": database.dsn}
    restored = replace(installation, home=folder / "home", env=env)
    await _run_command(restored, "store", "restore", str(file))
    store = await open_store(database)
    try:
        yield replace(restored, store=store)
    finally:
        await store.close()
        await postgres.drop_database(folder)


async def _run_command(installation: ProcessInstallation, *command: str, status: int = 0) -> Any:
    """Run a command; return its JSON."""
    done = await asyncio.to_thread(
        installation.run_command, *command, "--json", home=installation.home, **installation.env
    )
    if done.status != status:
        raise AssertionError(f"florin {shlex.join(command)} ended with {done}")
    return json.loads(done.out)


async def _count(installation: ProcessInstallation, query: str) -> int:
    ((count,),) = await postgres.list_rows(installation.env["FLORIN_STORE"], query)
    return int(count)


async def _check_copy(
    restored: ProcessInstallation,
    session: aiohttp.ClientSession,
    acknowledged: Acknowledgements,
    backup: _BackupContents,
) -> list[str]:
    """Return a copy's faults, before and after the operator has resolved what it cannot know."""
    bad = list[str]()
    with await asyncio.to_thread(restored.start_lasting, "serve"):
        bad += await _find_lost(restored, acknowledged, backup)
        # until then a copy that does not say so has no fault, and payouts that are resumed are
        # paused again
        await restored.wait_logged(f"{TREASURY.address.lower()} that the store does not know", 1)
        doctor_report = json.dumps(await _run_command(restored, "doctor", status=1))
        if not any(name in doctor_report for name in ("store_restored", "store_behind")):
            bad.append(f"the doctor does not tell what the store lacks: {doctor_report}")
        # the operator sees the paid ones on the chain; what Florin found there needs no one
        for payout in (await _run_command(restored, "payouts", "list"))["payouts"]:
            with suppress(AssertionError):
                await _run_command(restored, "payouts", "refuse", payout["payoutId"])
        await wait_until(lambda: _count(restored, _OWED), 0, patience_s=SERVED_S)
        await _run_command(restored, "executors", "resume", _TREASURY_ACCOUNT)
        bad += await _find_ledger_differences(restored, acknowledged, backup)
        bad += await _pay_and_refund(restored, restored.rest(session))
        # that payment was paid and refunded
        bad += await find_treasury_difference(restored, session, acknowledged)
    bad += [*await restored.store.scan(history.check()), *await restored.store.read(ledger.check())]
    return bad


async def _find_lost(
    restored: ProcessInstallation, acknowledged: Acknowledgements, backup: _BackupContents
) -> list[str]:
    """Return payments that are missing in the copy, or ended differently."""
    expected = {text: acknowledged.final[text] for text in backup.acknowledged.final}
    # the chain decides about the others, if they were offered
    expected |= dict.fromkeys(backup.offered & acknowledged.confirmed.keys(), "succeeded")
    stored: dict[str, str] = {}

    async def find_mismatches() -> list[str]:
        stored.update(await postgres.list_rows(restored.env["FLORIN_STORE"], _STATES))
        return [
            f"{text} ended as {end}, and is {stored.get(text)}"
            for text, end in expected.items()
            if stored.get(text) != end
        ]

    with suppress(AssertionError):
        await wait_until(find_mismatches, [], patience_s=SERVED_S)
    lost = [
        f"{text} is lost" for text in backup.acknowledged.created.values() if text not in stored
    ]
    return [*lost, *await find_mismatches()]


async def _find_ledger_differences(
    restored: ProcessInstallation, acknowledged: Acknowledgements, backup: _BackupContents
) -> list[str]:
    """Return how far books and chain differ beyond what was settled and paid since the copy."""
    unknown = len(acknowledged.confirmed.keys() - backup.offered)
    since = unknown - (len(acknowledged.refunds) - await _count(restored, _REFUNDED))
    # the gas spent since is missing in any case
    report = await _run_command(restored, "ledger", "check", status=1)
    account = _TREASURY_ACCOUNT.lower()
    differences = [
        int(wallet["held"]) - int(wallet["booked"])
        for wallet in report["wallets"]
        if (wallet["account"].lower(), wallet["asset"].lower()) == (account, _ASSET.lower())
    ]
    if differences != [PRICE * since]:
        return [f"books and chain are {differences} apart, and should be {PRICE * since}"]
    return [f"the books are not whole: {item}" for item in report.get("problems", ())]


async def _pay_and_refund(restored: ProcessInstallation, api: RestApi) -> list[str]:
    """Make a payment and refund it, as on any other Florin."""
    paid = await restored.pay(api)
    if (end := await restored.final(api, paid)) != "succeeded":
        return [f"a new payment is {end}"]
    expected = await _count(restored, _REFUNDED) + 1
    await api.refund(paid, "back")
    await wait_until(lambda: _count(restored, _REFUNDED), expected, patience_s=SERVED_S)
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
