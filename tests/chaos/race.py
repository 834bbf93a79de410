"""Two client processes race for the same idempotency keys; the server is killed on the way.

    python -m tests.chaos.race FOLDER [--calls N] [--planted]

Both clients ask for the same things under the same keys at about the same time, over REST and
gRPC, at times with another body; they give calls up half-way and send them again. At half-time the
server dies by SIGKILL and another one takes over. Afterwards everything that anybody was told is
compared with everything that is stored. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import uvloop
from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.service import Service
from florin_server.flows.accounts import destinations, merchants
from florin_server.flows.payments import create, idempotent, simulate
from florin_server.flows.payouts import refund
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import idempotency
from florin_server.store.payments.idempotency import Replay

from tests.chaos.clients import Client
from tests.support.loaded import load
from tests.support.service import settings

CLIENTS = 2
CALLS_A_KEY = 3
# clients tell of their progress so often
CALLS_A_MARK = 10


def plant() -> None:
    """Breaks keys on purpose: the claim comes after the effect, in a transaction of its own."""

    @operation
    def known(claim: idempotency.Claim) -> Op[Replay | None]:
        rows = yield idempotency._FIND(scope_=claim.scope, key_=claim.key)  # noqa: SLF001
        return Replay(rows[0][1]) if rows and rows[0][0] == claim.fingerprint else None

    @operation
    def nothing() -> Op[None]:
        yield from ()

    async def once(app: Any, caller: Any, work: Any, answer: Callable[[Any], bytes]) -> Any:
        key = caller.idempotency
        if key is None:
            return await app.store.write(work)
        claim = idempotency.Claim(key.scope, key.key, key.fingerprint, app.clock.now_us(), None)
        if (replay := await app.store.read(known(claim))) is not None:
            return replay
        result = await app.store.write(work)
        await app.store.write(idempotency.once(claim, nothing(), lambda _: answer(result)))
        return result

    for module in (create, merchants, refund, destinations, simulate):
        assert module.once is idempotent.once
        module.once = once


async def serve(home: Path, address: Path, ready: int) -> None:
    """Runs a server until it is told to end; `address` tells where, `ready` that it answers."""
    service = await Service.start(settings(home))
    await ensure_demo(service)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    new = address.with_suffix(".new")
    new.write_text(json.dumps(service.home.read_demo_env()))
    new.rename(address)
    os.write(ready, b".")
    await ended.wait()
    await service.stop()


async def race(address: Path, seed: int, calls: int, marks: int, told: Path) -> None:
    """Runs one client and writes what it was told."""
    client, done = Client(address, seed), 0

    def progress() -> None:
        nonlocal done
        done += 1
        if done % CALLS_A_MARK == 0:
            os.write(marks, b".")

    await client.run(calls, CALLS_A_KEY, progress)
    await asyncio.to_thread(told.write_text, json.dumps(client.told()))


def fork(work: Callable[[], Coroutine[Any, Any, None]], error: Path) -> int:
    """Does something in a process of its own; 0 is how it ends if all is well."""
    child = os.fork()
    if child:
        return child
    status = 9
    try:
        uvloop.run(work())
        status = 0
    except BaseException:  # noqa: BLE001  (told to the parent)
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def campaign(root: Path, calls: int, *, planted: bool = False, seed: int = 7) -> dict[str, Any]:
    """One race, `calls` of each client; `bad` tells the first things that were wrong."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    home, address = root / "home", root / "address"
    if planted:
        plant()
    started = time.monotonic()

    def server() -> int:
        up, ready = os.pipe()
        child = fork(lambda: serve(home, address, ready), root / "server-error")
        os.close(ready)
        os.read(up, 1)
        os.close(up)
        return child

    running = server()
    reader, marks = os.pipe()
    clients = []
    for number in range(CLIENTS):
        told = root / f"client-{number}.json"
        work = _racing(address, seed + number, calls, marks, told)
        clients.append(fork(work, root / f"client-{number}-error"))
    os.close(marks)
    left = CLIENTS * calls // CALLS_A_MARK // 2
    while left > 0 and (seen := os.read(reader, left)):
        left -= len(seen)
    os.kill(running, signal.SIGKILL)
    os.waitpid(running, 0)
    running = server()
    ends = [os.waitpid(child, 0)[1] for child in clients]
    os.close(reader)
    os.kill(running, signal.SIGTERM)
    ends.append(os.waitpid(running, 0)[1])
    if any(ends):
        return {"bad": ["".join(path.read_text() for path in root.glob("*-error"))]}
    seconds = time.monotonic() - started
    told = [json.loads((root / f"client-{n}.json").read_text()) for n in range(CLIENTS)]
    return {**judge(told, home / "florin.db"), "seconds": round(seconds, 1)}


def _racing(address: Path, seed: int, calls: int, marks: int, told: Path) -> Any:
    return lambda: race(address, seed, calls, marks, told)


def judge(told: list[dict[str, Any]], database: Path) -> dict[str, Any]:
    """Compares what the clients were told with each other and with what is stored."""
    bad: list[str] = []
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for client in told:
        for answer in client["answers"]:
            by_key[answer["key"]].append(answer)
    for key, answers in by_key.items():
        bad += [f"{key}: {fault}" for fault in faults(answers)]
    bad += stored(by_key, database)
    everything = [answer for answers in by_key.values() for answer in answers]
    return {
        "keys": len(by_key),
        "answers": len(everything),
        "replayed": sum(answer["replayed"] for answer in everything),
        "statuses": dict(Counter(str(answer["status"]) for answer in everything)),
        "given_up": sum(client["given_up"] for client in told),
        "unanswered": sum(client["unanswered"] for client in told),
        "bad": bad[:20],
    }


def faults(answers: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the answers under one key."""
    good = [answer for answer in answers if answer["status"] < 300]
    found = []
    if len({answer["what"] for answer in good}) > 1:
        found.append("two requests succeeded")
    for protocol in ("rest", "grpc"):
        raw = {answer["raw"] for answer in good if answer["protocol"] == protocol}
        if len(raw) > 1:
            found.append(f"{len(raw)} answers over {protocol}: {sorted(raw)[:2]}")
    if len({json.dumps(answer["body"], sort_keys=True) for answer in good}) > 1:
        found.append("REST and gRPC tell different things")
    if sum(not answer["replayed"] for answer in good) > 1:
        found.append("more than one answer is the first one")
    winner = good[0]["what"] if good else None
    for answer in answers:
        told = (answer["status"], answer["code"])
        if answer["status"] < 300:
            continue
        if told == (409, "idempotency_conflict"):
            if winner is None or answer["what"] == winner:
                found.append(f"a conflict with itself: {answer['what']}")
        elif not answer["refusable"] or told != (400, "params_validation"):
            found.append(f"{told} for {answer['what']}")
    if not good and any(not answer["refusable"] for answer in answers):
        found.append("nothing succeeded")
    return found


def stored(by_key: dict[str, list[dict[str, Any]]], database: Path) -> list[str]:
    """What is stored twice, or else than somebody was told."""
    made: dict[str, set[str]] = {"payment": set(), "merchant": set(), "refund": set()}
    for answers in by_key.values():
        for answer in answers:
            if answer["status"] < 300:
                _take_ids(answer, made)
    found = []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for table, ids in made.items():
            own = " WHERE reference_id LIKE 'key-%'" if table == "payment" else ""
            own = " WHERE name LIKE 'key-%'" if table == "merchant" else own
            kept = {one for (one,) in connection.execute(f"SELECT id FROM {table}{own}")}
            if kept != ids:
                extra, lost = len(kept - ids), len(ids - kept)
                found.append(f"{table}: {extra} that nobody was told of, {lost} that are not there")
        changes = connection.execute(
            "SELECT payment_id FROM payment_event GROUP BY payment_id HAVING count(*) > 2"
        ).fetchall()
        if changes:
            found.append(f"{len(changes)} payments changed twice")
    return found


def _take_ids(answer: dict[str, Any], made: dict[str, set[str]]) -> None:
    """Notes what a success has made."""
    body, method = answer["body"], answer["what"].split()[0].rpartition("/")[2]
    if method == "CreatePayment":
        made["payment"].add(body["paymentId"])
    elif method == "CreateMerchant":
        made["merchant"].add(body["merchant"]["id"])
    elif method == "CreateRefund":
        made["refund"].add(body["refundId"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.race", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calls", type=int, default=8000, help="of each client")
    parser.add_argument("--planted", action="store_true", help="with keys that are broken")
    wanted = parser.parse_args()
    result = campaign(wanted.folder, wanted.calls, planted=wanted.planted)
    print(json.dumps(result))
    return 1 if result["bad"] else 0


if __name__ == "__main__":
    load()
    sys.exit(main())
