"""What the tests of the store share: engines to run on, and things to store."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from florin_server.domain.payments.payment import (
    Action,
    Build,
    Confirmation,
    Option,
    Payment,
    ResolvedBuild,
    Status,
)
from florin_server.domain.settlement.chain_txs import ChainTx, Finding, Posting, TxState
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store
from florin_server.store.payments import payments
from florin_server.store.payments.idempotency import Claim, once
from florin_server.store.settlement import chain_txs, leases

from tests.support import postgres

# every engine passes the same suite
ENGINES = postgres.chosen()

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
async def opened(engine: str, folder: Path, **options: Any) -> AsyncIterator[Store]:
    where = folder / "florin.db" if engine == postgres.SQLITE else postgres.of(folder, engine)
    store = await open_store(where, **options)
    try:
        yield store
    finally:
        await store.close()


async def beside(store: Store, folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a statement, and what it changes, past the store of a folder."""
    if store.exclusive:
        with closing(sqlite3.connect(folder / "florin.db", isolation_level=None)) as raw:
            return raw.execute(sql).fetchall()
    return await postgres.rows(postgres.of(folder).dsn, sql)


def pragma(store: Store, text: str) -> list[Any]:
    """A setting that SQLite keeps by connection, of the one that writes; sets it with a `=`."""
    # only the store itself is to use it
    return store._connection.command(f"PRAGMA {text}").fetchall()  # noqa: SLF001


def payment(**changes: Any) -> Payment:
    number = next(_numbers)
    made = Payment(
        id=f"pay_{number:027}",
        partner_id="par_1",
        merchant_id="mer_1",
        live=False,
        status=Status.REQUIRES_ACTION,
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
    return replace(made, **changes)


def option(of: Payment, **changes: Any) -> Option:
    made = Option(
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
        actions=(Action(CHAIN, "eth_signTypedData_v4", '["0xbb",{"a":1}]'), Build("more")),
        terms={"nonce": "0x12", "value": U256_MAX, "parts": [1, None, {"x": True}]},
        created_at_us=NOW_US,
        reference=f"0x{of.id}",
        head=8,
    )
    return replace(made, **changes)


def issued(of: Payment, **changes: Any) -> ResolvedBuild:
    made = ResolvedBuild(
        payment_id=of.id,
        option_id="opt_1",
        n=0,
        actions=(Action(CHAIN, "eth_sendTransaction", '[{"value":"0x1"}]'),),
        terms={"hash": "a", "value": U256_MAX},
        head=8,
        issued_at_us=NOW_US,
        expires_at=EXPIRES,
    )
    return replace(made, **changes)


def confirmation(of: Payment, **changes: Any) -> Confirmation:
    made = Confirmation(of.id, "opt_1", ('"0xsigned"', '{"é":1}'), b"\x01" * 32, NOW_US)
    return replace(made, **changes)


def claim(key: str = "key-1", **changes: Any) -> Claim:
    made = Claim("par_1/mer_1/test", key, b"\x02" * 32, NOW_US, None)
    return replace(made, **changes)


def create_once(made: Payment, key: Claim, body: bytes = b'{"paymentId":"x"}'):
    """An operation that creates a payment under an idempotency key."""
    return once(key, payments.create(made), lambda _: body)


def tx(*paid: Payment, **changes: Any) -> ChainTx:
    number = next(_numbers)
    made = ChainTx(
        id=f"tx_{number}",
        chain_id=CHAIN,
        sender=SENDER,
        nonce=number,
        raw=b"\x02raw",
        hash=f"0x{number:064x}",
        payment_ids=tuple(one.id for one in paid),
        state=TxState.SIGNED,
        created_at_us=NOW_US,
    )
    return replace(made, **changes)


def success(of: Payment, amount: int = 50_000_000) -> Finding:
    return Finding(
        payment_id=of.id,
        status=Status.SUCCEEDED,
        tx_id="0xpaid",
        option_unit=f"caip19/{ASSET}",
        option_value=amount,
        settled_value=amount,
        postings=(Posting("external:shop", "external:buyer", ASSET, amount),),
    )


async def created(store: Store, **changes: Any) -> Payment:
    """A stored payment with an option."""
    made = payment(**changes)
    await store.write(payments.create(made))
    await store.write(payments.put_options([option(made)]))
    return made


async def accepted(store: Store, made: Payment | None = None, **changes: Any) -> Payment:
    """A stored payment that is processing: one that was made before, or a new one."""
    made = made or await created(store)
    op = payments.accept(
        confirmation(made, **changes), option(made), 7, ("Wallet", "https://w.example/i"), LATER_US
    )
    changed = await store.write(op)
    assert changed is not None
    return changed


async def leased(store: Store) -> int:
    epoch = await store.write(leases.acquire(LEASE, "me", NOW_US, 30_000_000, steal=True))
    assert epoch is not None
    return epoch


async def submitted(store: Store, *paid: Payment, **changes: Any) -> ChainTx:
    """A transaction that is written down."""
    made = tx(*paid, **changes)
    await store.write(
        chain_txs.append(made, await leased(store), LEASE, chain_txs.claim(made.item_ids))
    )
    return made
