"""Measure what a notification between processes costs, by the number of processes that listen.

pgbench sends notifications as Florin does, each in a transaction of its own. Another process has
the listening connections, and parses what arrives there.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import uvloop
from florin_server.base.process_bus import ProcessBus
from florin_server.db.engine.postgres.notices import CHANNEL

from tests.bench import load
from tests.bench.database import server_cpu_s
from tests.bench.payment import a_payment
from tests.bench.report import Figure, median_of
from tests.bench.size import sized
from tests.support import postgres
from tests.support.until import wait_until

ROUNDS, COUNT = sized((3, 4000), (1, 40))
# processes on one database
FEW, MANY = sized((1, 32), (1, 2))
# connections that send at the same time
_SENDERS = 4


@dataclass(frozen=True, slots=True)
class Received:
    """Processor time of a listening process for each notification on each connection."""

    cpu_us: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Notifications a second, and processor time of each: PostgreSQL, and one that receives it."""

    per_s: float
    server_us: float
    receive_us: float


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    """Send to few listeners and to many, in turn."""
    server = postgres.OwnServer()
    try:
        paces = [
            {count: _send(pool, server, count) for count in (FEW, MANY)} for _ in range(-1, ROUNDS)
        ][1:]
    finally:
        server.end()
    added = [(pace[MANY].server_us - pace[FEW].server_us) / (MANY - FEW) for pace in paces]
    fixed = [pace[FEW].server_us - each for pace, each in zip(paces, added, strict=True)]
    note = f"CPU of PostgreSQL; {COUNT} notifications of one change, {_SENDERS} at the same time"
    return [
        median_of("notify_us", fixed, "µs", f"{note}, without the listeners"),
        median_of("notify_listener_us", added, "µs", f"{note}, for each listener"),
        median_of(
            "notify_receive_us",
            [pace[MANY].receive_us for pace in paces],
            "µs",
            "CPU of a process that receives one and parses it",
        ),
        *(
            median_of(
                f"notify_{count}_per_s",
                [pace[count].per_s for pace in paces],
                "/s",
                f"by wall clock, with {count} listeners on the same machine",
            )
            for count in (FEW, MANY)
        ),
    ]


def _send(pool: ProcessPoolExecutor, server: postgres.OwnServer, listeners: int) -> Pace:
    dsn = server.database.dsn
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        ready, script = Path(folder) / "ready", Path(folder) / "notify.sql"
        # colons would name variables of pgbench
        text = f"1 {'f' * 16} p:1:{a_payment().id}".replace(":", r"\072")
        script.write_text(f"SELECT pg_notify('{CHANNEL}', E'{text}');\n")
        receiving = pool.submit(listen, dsn, listeners, COUNT, ready)
        asyncio.run(wait_until(ready.exists))
        before_s, start = server_cpu_s(server.pid), time.perf_counter()
        command = [
            *(str(postgres.get_program("pgbench")), "--no-vacuum", "--protocol", "prepared"),
            *("--client", str(_SENDERS), "--transactions", str(COUNT // _SENDERS)),
            *("--file", str(script), dsn),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=load.PATIENCE_S)
        received = receiving.result(load.PATIENCE_S)
        seconds, used_s = time.perf_counter() - start, server_cpu_s(server.pid) - before_s
    return Pace(COUNT / seconds, used_s / COUNT * 1e6, received.cpu_us)


def listen(dsn: str, listeners: int, count: int, ready: Path) -> Received:
    """Listen on some connections; return once each has received all notifications."""
    return uvloop.run(_listen(dsn, listeners, count, ready))


async def _listen(dsn: str, listeners: int, count: int, ready: Path) -> Received:
    bus, left, done = ProcessBus("0" * 16), listeners * count, asyncio.Event()

    def receive(_raw: object, _pid: int, _channel: str, text: object) -> None:
        nonlocal left
        assert bus.receive(str(text))
        left -= 1
        if not left:
            done.set()

    connections = [await asyncpg.connect(dsn) for _ in range(listeners)]
    try:
        for connection in connections:
            await connection.add_listener(CHANNEL, receive)
        await asyncio.to_thread(ready.touch)
        before_s = time.process_time()
        async with asyncio.timeout(load.PATIENCE_S):
            await done.wait()
        return Received((time.process_time() - before_s) / (listeners * count) * 1e6)
    finally:
        for connection in connections:
            connection.terminate()
