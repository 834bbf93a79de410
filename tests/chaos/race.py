"""Race two client processes for the same idempotency keys; the server is killed during the race.

    python -m tests.chaos.race FOLDER [--calls N] [--planted]

Both clients send the same requests under the same keys at about the same time, over REST and gRPC,
sometimes with another body. They abandon calls and send them again. At half-time the server dies by
SIGKILL and another one takes over. Afterwards all answers are compared with the store. Prints one
JSON object.
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
from florin_sandbox.demo_accounts import ensure_demo_accounts
from florin_server.accounts.service import destinations, merchants
from florin_server.app.service import FlorinService
from florin_server.db.engine.query import Op, operation
from florin_server.idempotency import service as idempotent
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.payments.service import create, simulate
from florin_server.money.refunds import service as refund

from tests.chaos.clients import Client
from tests.support.preload import load_all
from tests.support.service import make_settings

CLIENTS = 2
CALLS_PER_KEY = 3
# calls between two progress reports of a client
CALLS_PER_MARK = 10


def plant() -> None:
    """Plant a bug: the key is claimed after the effect, in a separate transaction."""

    @operation
    def find_response(claim: idempotency.IdempotencyClaim) -> Op[StoredResponse | None]:
        bound = yield from idempotency._FIND.first(scope_=claim.scope, key_=claim.key)  # noqa: SLF001
        is_bound = bound is not None and bound.fingerprint == claim.fingerprint
        return StoredResponse(bound.body) if is_bound else None

    @operation
    def do_nothing() -> Op[None]:
        yield from ()

    async def claim_after_effect(
        app: Any, caller: Any, work: Any, answer: Callable[[Any], bytes]
    ) -> Any:
        key = caller.idempotency_key
        if key is None:
            return await app.store.write(work)
        claim = idempotency.IdempotencyClaim(
            key.scope, key.key, key.fingerprint, app.clock.now_us(), None
        )
        if (replay := await app.store.read(find_response(claim))) is not None:
            return replay
        result = await app.store.write(work)
        await app.store.write(idempotency.run_once(claim, do_nothing(), lambda _: answer(result)))
        return result

    for module in (create, merchants, refund, destinations, simulate):
        assert module.run_once is idempotent.run_once
        module.run_once = claim_after_effect


async def serve(home: Path, address: Path, ready: int) -> None:
    """Run a server until SIGTERM; write its address to `address`, and signal `ready`."""
    service = await FlorinService.start(make_settings(home))
    await ensure_demo_accounts(service)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    new = address.with_suffix(".new")
    new.write_text(json.dumps(service.home.read_demo_env()))
    new.rename(address)
    os.write(ready, b".")
    await ended.wait()
    await service.stop()


async def race(address: Path, seed: int, calls: int, marks: int, path: Path) -> None:
    """Run one client and write its answers."""
    client, done = Client(address, seed), 0

    def progress() -> None:
        nonlocal done
        done += 1
        if done % CALLS_PER_MARK == 0:
            os.write(marks, b".")

    await client.run(calls, CALLS_PER_KEY, progress)
    await asyncio.to_thread(path.write_text, json.dumps(client.build_report()))


def fork(work: Callable[[], Coroutine[Any, Any, None]], error: Path) -> int:
    """Run work in a child process, which exits with 0 on success."""
    child = os.fork()
    if child:
        return child
    status = 9
    try:
        uvloop.run(work())
        status = 0
    except BaseException:  # noqa: BLE001  (reported to the parent)
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def campaign(root: Path, calls: int, *, planted: bool = False, seed: int = 7) -> dict[str, Any]:
    """Run one race with `calls` of each client; `bad` lists the first violations."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    home, address = root / "home", root / "address"
    if planted:
        plant()
    started = time.monotonic()

    def server() -> int:
        ready_reader, ready = os.pipe()
        child = fork(lambda: serve(home, address, ready), root / "server-error")
        os.close(ready)
        os.read(ready_reader, 1)
        os.close(ready_reader)
        return child

    running = server()
    reader, marks = os.pipe()
    clients = []
    for number in range(CLIENTS):
        path = root / f"client-{number}.json"
        work = _make_race(address, seed + number, calls, marks, path)
        clients.append(fork(work, root / f"client-{number}-error"))
    os.close(marks)
    left = CLIENTS * calls // CALLS_PER_MARK // 2
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
    reports = [json.loads((root / f"client-{n}.json").read_text()) for n in range(CLIENTS)]
    return {**compare_answers(reports, home / "florin.db"), "seconds": round(seconds, 1)}


def _make_race(address: Path, seed: int, calls: int, marks: int, path: Path) -> Any:
    return lambda: race(address, seed, calls, marks, path)


def compare_answers(reports: list[dict[str, Any]], database: Path) -> dict[str, Any]:
    """Compare the clients' answers with each other and with the store."""
    bad: list[str] = []
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for client in reports:
        for answer in client["answers"]:
            by_key[answer["key"]].append(answer)
    for key, answers in by_key.items():
        bad += [f"{key}: {fault}" for fault in find_faults(answers)]
    bad += find_store_faults(by_key, database)
    all_answers = [answer for answers in by_key.values() for answer in answers]
    return {
        "keys": len(by_key),
        "answers": len(all_answers),
        "replayed": sum(answer["replayed"] for answer in all_answers),
        "statuses": dict(Counter(str(answer["status"]) for answer in all_answers)),
        "given_up": sum(client["given_up"] for client in reports),
        "unanswered": sum(client["unanswered"] for client in reports),
        "bad": bad[:20],
    }


def find_faults(answers: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the answers under one key."""
    good = [answer for answer in answers if answer["status"] < 300]
    results = []
    if len({answer["what"] for answer in good}) > 1:
        results.append("two requests succeeded")
    for protocol in ("rest", "grpc"):
        raw = {answer["raw"] for answer in good if answer["protocol"] == protocol}
        if len(raw) > 1:
            results.append(f"{len(raw)} answers over {protocol}: {sorted(raw)[:2]}")
    if len({json.dumps(answer["body"], sort_keys=True) for answer in good}) > 1:
        results.append("REST and gRPC tell different things")
    if sum(not answer["replayed"] for answer in good) > 1:
        results.append("more than one answer is the first one")
    winner = good[0]["what"] if good else None
    for answer in answers:
        result = (answer["status"], answer["code"])
        if answer["status"] < 300:
            continue
        if result == (409, "idempotency_conflict"):
            if winner is None or answer["what"] == winner:
                results.append(f"a conflict with itself: {answer['what']}")
        elif not answer["refusable"] or result != (400, "params_validation"):
            results.append(f"{result} for {answer['what']}")
    if not good and any(not answer["refusable"] for answer in answers):
        results.append("nothing succeeded")
    return results


def find_store_faults(by_key: dict[str, list[dict[str, Any]]], database: Path) -> list[str]:
    """Return what is stored twice, or differs from an answer."""
    created: dict[str, set[str]] = {"payment": set(), "merchant": set(), "refund": set()}
    for answers in by_key.values():
        for answer in answers:
            if answer["status"] < 300:
                _take_ids(answer, created)
    results = []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for table, ids in created.items():
            own = " WHERE reference_id LIKE 'key-%'" if table == "payment" else ""
            own = " WHERE name LIKE 'key-%'" if table == "merchant" else own
            stored_ids = {item for (item,) in connection.execute(f"SELECT id FROM {table}{own}")}
            if stored_ids != ids:
                extra, lost = len(stored_ids - ids), len(ids - stored_ids)
                results.append(
                    f"{table}: {extra} that no client got an answer for, {lost} that are not there"
                )
        changes = connection.execute(
            "SELECT payment_id FROM payment_event GROUP BY payment_id HAVING count(*) > 2"
        ).fetchall()
        if changes:
            results.append(f"{len(changes)} payments changed twice")
    return results


def _take_ids(answer: dict[str, Any], created: dict[str, set[str]]) -> None:
    """Collect the IDs that a success has created."""
    body, method = answer["body"], answer["what"].split()[0].rpartition("/")[2]
    if method == "CreatePayment":
        created["payment"].add(body["paymentId"])
    elif method == "CreateMerchant":
        created["merchant"].add(body["merchant"]["id"])
    elif method == "CreateRefund":
        created["refund"].add(body["refundId"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.race", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calls", type=int, default=8000, help="of each client")
    parser.add_argument("--planted", action="store_true", help="with keys that are broken")
    namespace = parser.parse_args()
    result = campaign(namespace.folder, namespace.calls, planted=namespace.planted)
    print(json.dumps(result))
    return 1 if result["bad"] else 0


if __name__ == "__main__":
    load_all()
    sys.exit(main())
