"""Another process locks the store's file: reads are answered, writes wait in the background."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from florin_server.db.engine import writer

from tests.support import postgres
from tests.support.service_harness import CREATE, ORDER, ServiceHarness, open_service

pytestmark = pytest.mark.skipif(
    postgres.get_engine() != postgres.SQLITE, reason="only a file can be locked by others"
)
HOLDER = (
    "import sqlite3, sys\n"
    "raw = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "raw.execute('BEGIN IMMEDIATE')\n"
    "print('locked', flush=True)\n"
    "sys.stdin.read()\n"
)
# SQLite's own wait of 5 s in the loop's thread made `/healthz` hang for 6 s
PROMPT_S = 1.0


@pytest.fixture
async def desk(tmp_path):
    async with open_service(tmp_path / "home") as service:
        yield service


@contextmanager
def write_lock(desk: ServiceHarness) -> Iterator[None]:
    """Have another process hold the write lock of a service's store."""
    command = [sys.executable, "-c", HOLDER, str(desk.service.home.database_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


async def seconds_of(desk: ServiceHarness, path: str, status: int = 200) -> float:
    started = time.monotonic()
    assert (await desk.ask("GET", path, desk.rest.merchant)).status == status
    return time.monotonic() - started


async def test_reads_are_answered_while_another_process_has_the_write_lock(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    with write_lock(desk):
        create = asyncio.create_task(desk.ask("POST", CREATE, desk.rest.merchant, ORDER))
        for _ in range(10):
            assert await seconds_of(desk, "/healthz") < PROMPT_S
            assert await seconds_of(desk, f"/v1/payments/{payment_id}") < PROMPT_S
        assert not create.done()
    assert (await create).status == 201


async def test_write_is_refused_in_time_and_succeeds_after_the_lock(desk, monkeypatch):
    monkeypatch.setattr(writer, "LOCKED_S", 0.3)
    headers = {**desk.rest.merchant, "Idempotency-Key": "once"}
    with write_lock(desk):
        for _ in range(3):
            answers = await asyncio.gather(
                *(desk.ask("POST", CREATE, headers, ORDER) for _ in range(4))
            )
            assert {answer.refusal for answer in answers} == {(503, "internal_error")}
            assert await seconds_of(desk, "/healthz") < PROMPT_S
        before = desk.rows()["payment"]
    answer = await desk.ask("POST", CREATE, headers, ORDER)
    assert answer.status == 201
    assert desk.rows()["payment"] == before + 1
