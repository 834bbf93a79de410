"""Shared helpers of the store's tests: engines to run on, and objects to store."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from florin_server.db.engine.store import Store
from florin_server.domain.payments.payment import (
    Action,
    BuildAction,
    Confirmation,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    LedgerPosting,
    PaymentOutcome,
    TxState,
)
from florin_server.idempotency.store.responses import IdempotencyClaim, run_once
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import chain_txs, settlement_items
from florin_server.operations.store import leases

from tests.support import postgres

# every engine passes the same suite
ENGINES = postgres.list_engines()

NOW_US = 1_800_000_000_000_000
LATER_US = NOW_US + 1_000_000
EXPIRES = NOW_US // 1_000_000 + 900
AFTER_US = EXPIRES * 1_000_000
CHAIN = "eip155:31337"
ASSET = f"{CHAIN}/erc20:0x{'aa' * 20}"
PAYER = f"{CHAIN}:0x{'bb' * 20}"
SENDER = "0x" + "cc" * 20
COIN = f"{CHAIN}/slip44:60"
LEASE = "relayer"
U256_MAX = 2**256 - 1

_numbers = itertools.count(1)


@asynccontextmanager
async def open_engine_store(engine: str, folder: Path, **options: Any) -> AsyncIterator[Store]:
    where = (
        folder / "florin.db" if engine == postgres.SQLITE else postgres.get_database(folder, engine)
    )
    store = await open_store(where, **options)
    try:
        yield store
    finally:
        await store.close()


async def execute_beside(store: Store, folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Execute a statement with a second connection to a folder's store; return its rows."""
    if store.is_exclusive:
        with closing(sqlite3.connect(folder / "florin.db", isolation_level=None)) as raw:
            return raw.execute(sql).fetchall()
    return await postgres.list_rows(postgres.get_database(folder).dsn, sql)


def run_pragma(store: Store, text: str) -> list[Any]:
    """Return a setting that SQLite keeps by connection, of the one that writes; `=` sets it."""
    # only the store itself may use it
    return store._connection.command(f"PRAGMA {text}").fetchall()  # noqa: SLF001


def make_payment(**changes: Any) -> Payment:
    number = next(_numbers)
    payment = Payment(
        id=f"pay_{number:027}",
        partner_id="par_1",
        merchant_id="mer_1",
        live=False,
        status=PaymentStatus.REQUIRES_ACTION,
        version=0,
        unit="iso4217/USD",
        value=5000,
        reference_id=f"order-{number}",
        success_url="https://shop.example/thanks",
        error_url=None,
        salt=number.to_bytes(16, "big"),
        created_at_us=NOW_US,
        updated_at_us=NOW_US,
        expires_at=EXPIRES,
    )
    return replace(payment, **changes)


def make_option(of: Payment, **changes: Any) -> PaymentOption:
    option = PaymentOption(
        id="opt_1",
        payment_id=of.id,
        account=PAYER.upper().replace("EIP155", "eip155"),
        payer=PAYER,
        chain_id=CHAIN,
        asset=ASSET,
        value=50_000_000,
        eta_s=12,
        expires_at=None,
        method="eip3009",
        actions=(Action(CHAIN, "eth_signTypedData_v4", '["0xbb",{"a":1}]'), BuildAction("more")),
        terms={"nonce": "0x12", "value": U256_MAX, "parts": [1, None, {"x": True}]},
        created_at_us=NOW_US,
        reference=f"0x{of.id}",
        head=8,
    )
    return replace(option, **changes)


def make_resolved_build(of: Payment, **changes: Any) -> ResolvedBuild:
    resolved_build = ResolvedBuild(
        payment_id=of.id,
        option_id="opt_1",
        n=0,
        actions=(Action(CHAIN, "eth_sendTransaction", '[{"value":"0x1"}]'),),
        terms={"hash": "a", "value": U256_MAX},
        head=8,
        issued_at_us=NOW_US,
        expires_at=EXPIRES,
    )
    return replace(resolved_build, **changes)


def make_confirmation(of: Payment, **changes: Any) -> Confirmation:
    confirmation = Confirmation(of.id, "opt_1", ('"0xsigned"', '{"é":1}'), b"\x01" * 32, NOW_US)
    return replace(confirmation, **changes)


def make_claim(key: str = "key-1", **changes: Any) -> IdempotencyClaim:
    claim = IdempotencyClaim("par_1/mer_1/test", key, b"\x02" * 32, NOW_US, None)
    return replace(claim, **changes)


def create_once(payment: Payment, key: IdempotencyClaim, body: bytes = b'{"paymentId":"x"}'):
    """Return an operation that creates a payment under an idempotency key."""
    return run_once(key, payments.create(payment), lambda _: body)


def make_chain_tx(*paid: Payment, **changes: Any) -> ChainTx:
    number = next(_numbers)
    tx = ChainTx(
        id=f"tx_{number}",
        chain_id=CHAIN,
        sender=SENDER,
        nonce=number,
        raw=b"\x02raw",
        hash=f"0x{number:064x}",
        payment_ids=tuple(payment.id for payment in paid),
        state=TxState.SIGNED,
        created_at_us=NOW_US,
    )
    return replace(tx, **changes)


def make_success(of: Payment, amount: int = 50_000_000) -> PaymentOutcome:
    return PaymentOutcome(
        payment_id=of.id,
        status=PaymentStatus.SUCCEEDED,
        tx_hash="0xpaid",
        option_unit=f"caip19/{ASSET}",
        option_value=amount,
        settled_value=amount,
        postings=(LedgerPosting("external:shop", "external:buyer", ASSET, amount),),
    )


async def create_payment(store: Store, **changes: Any) -> Payment:
    """Store a payment with an option."""
    payment = make_payment(**changes)
    await store.write(payments.create(payment))
    await store.write(payments.put_options([make_option(payment)]))
    return payment


async def create_processing_payment(
    store: Store, payment: Payment | None = None, **changes: Any
) -> Payment:
    """Store a payment that is processing: the given one, or a new one."""
    payment = payment or await create_payment(store)
    op = payments.accept(
        make_confirmation(payment, **changes),
        make_option(payment),
        7,
        ("Wallet", "https://w.example/i"),
        LATER_US,
    )
    changed = await store.write(op)
    assert changed is not None
    return changed


async def acquire_lease(store: Store) -> int:
    epoch = await store.write(leases.acquire(LEASE, "me", NOW_US, 30_000_000, steal=True))
    assert epoch is not None
    return epoch


async def create_chain_tx(store: Store, *paid: Payment, **changes: Any) -> ChainTx:
    """Store a transaction."""
    tx = make_chain_tx(*paid, **changes)
    await store.write(
        chain_txs.append(tx, await acquire_lease(store), LEASE, settlement_items.claim(tx.item_ids))
    )
    return tx
