"""Create payments with a plain SQLModel session on SQLite, as with the models alone."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from florin_server.db.tables.payments import IdempotencyRow, PaymentEventRow, PaymentRow
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from sqlalchemy import create_engine, event
from sqlmodel import Session

from tests.bench.load import Result
from tests.bench.payment import RECEIPT, a_payment

_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


def creates(count: int) -> Result:
    """Create payments one after another: look up, add and commit their rows."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        path = Path(folder) / "store.db"
        asyncio.run(_tables(path))
        return _create(path, count)


async def _tables(path: Path) -> None:
    await (await open_store(path)).close()


def _create(path: Path, count: int) -> Result:
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def set_pragmas(raw: object, _record: object) -> None:
        for text in _PRAGMAS:  # like the store's
            raw.execute(f"PRAGMA {text}")  # type: ignore[attr-defined]

    names = [column.name for column in PaymentRow.__table__.columns]
    created_payments = [a_payment() for _ in range(count)]
    cpu_s, started = time.process_time(), time.perf_counter()
    for number, payment in enumerate(created_payments):
        with Session(engine) as session:
            key = ("prtn_bench/mrch_bench/test", f"bench-{number}")
            assert session.get(IdempotencyRow, key) is None
            session.add(PaymentRow(**{name: getattr(payment, name) for name in names}))
            session.add(PaymentEventRow(**payments.to_event_row(payment, "created")))
            session.add(
                IdempotencyRow(
                    scope=key[0],
                    key=key[1],
                    fingerprint=os.urandom(32),
                    body=RECEIPT,
                    created_at_us=payment.created_at_us,
                    expires_at_us=payment.created_at_us + 7 * 86_400 * 1_000_000,
                )
            )
            session.commit()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    engine.dispose()
    return Result(answered=count, seconds=seconds, cpu_s=cpu_s)
