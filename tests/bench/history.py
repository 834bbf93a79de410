"""Write a store with a month of payments, in bulk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from florin_server.db.engine import schema
from florin_server.db.tables.tables import merchant_table, partner_table, payment_table
from florin_server.domain.ids import generate_payment_id
from sqlalchemy import Table

PARTNER = "prtn_bench"
# the first merchant has half of the payments
MERCHANTS = tuple(f"mrch_bench{number}" for number in range(8))
START_US, MONTH_US = 1_800_000_000_000_000, 30 * 86_400 * 1_000_000
END_US = START_US + MONTH_US
CHAIN = "eip155:31337"
TOKEN = f"caip19/{CHAIN}/erc20:0x{'aa' * 20}"
_PAYERS = 100_000
_ENDS = ("succeeded", "expired", "failed", "cancelled", "requires_action")
_HOW_OFTEN = (70, 15, 6, 6, 3)
# one payment in so many is stuck; that is the rare status
RARE, _RARE_EVERY = "processing", 10_000
_UNITS, _UNITS_HOW_OFTEN = ("iso4217/USD", "iso4217/EUR", TOKEN), (80, 15, 5)
# many orders have the same price
_USUAL_PRICE = "1250"

_INDEXES = """
    SELECT name, sql FROM sqlite_master
    WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('payment', 'chain_tx')
"""
_OPTIONS = f"""
    INSERT INTO payment_option SELECT id, option_id, payer, payer, '{CHAIN}',
    substr(option_unit, 8), option_value, 12, NULL, 'eip3009', '[]', '{{}}', created_at_us,
    '5', '1', 40, '0x' || id, 1 FROM payment WHERE option_id IS NOT NULL
"""
_TXS = f"""
    INSERT INTO chain_tx (id, chain_id, sender, nonce, raw, hash, state, created_at_us, sent_block,
    block_number, block_hash, final_hash) SELECT 'tx' || id, '{CHAIN}', '0xcc',
    row_number() OVER (ORDER BY id), x'02', tx_id, 'final', updated_at_us, 1, 2, '0xbb', NULL
    FROM payment WHERE tx_id IS NOT NULL
"""


def write(path: Path, count: int) -> None:
    """Write the store: equal payments for equal counts, except for the IDs' random part."""
    schema.prepare(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous=OFF")
        raw.execute("PRAGMA cache_size=-524288")
        raw.execute("BEGIN")
        # building an index on existing rows is faster than updating it for each row
        indexes = raw.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            raw.execute(f"DROP INDEX {name}")
        _insert(raw, partner_table, [(PARTNER, "Bench", "2026-02-18", "active", START_US)])
        _insert(raw, merchant_table, map(_merchant, MERCHANTS))
        _insert(raw, payment_table, _payments(count))
        raw.execute(_OPTIONS)
        raw.execute(_TXS)
        for _, created in indexes:
            raw.execute(created)
        raw.execute("COMMIT")


def _insert(raw: sqlite3.Connection, table: Table, rows: Any) -> None:
    places = ", ".join("?" * len(table.c))
    raw.executemany(f"INSERT INTO {table.name} VALUES ({places})", rows)


def _merchant(name: str) -> tuple[Any, ...]:
    nothing = (None,) * 4  # not deleted, no support contact, and no accent
    return (name, PARTNER, name, "bench@shop.example", None, "active", 0, START_US, *nothing)


def _payments(count: int) -> Iterator[tuple[Any, ...]]:
    chance = Random(count)
    remaining = MERCHANTS[1:]
    statuses = chance.choices(_ENDS, _HOW_OFTEN, k=count)
    units = chance.choices(_UNITS, _UNITS_HOW_OFTEN, k=count)
    for number in range(count):
        at_us = START_US + number * MONTH_US // count
        status = RARE if number % _RARE_EVERY == _RARE_EVERY // 2 else statuses[number]
        price = _USUAL_PRICE
        if chance.random() > 0.3:
            price = str(chance.randrange(1, 10 ** chance.randrange(3, 8)))
        accepted = status in {RARE, "succeeded"}
        done = status == "succeeded"
        yield (
            generate_payment_id(at_us, chance.randbytes),
            PARTNER,
            MERCHANTS[0] if chance.random() < 0.5 else chance.choice(remaining),
            0,
            status,
            2 if done else 1,
            units[number],
            price,
            f"order-{number}",
            None,
            None,
            chance.randbytes(16),
            at_us,
            at_us + 5_000_000,
            at_us // 1_000_000 + 10**9,
            "opt" if accepted else None,
            f"{CHAIN}:0x{chance.randrange(_PAYERS):040x}" if accepted else None,
            "Purse" if accepted else None,
            None,
            f"0x{number:064x}" if done else None,
            TOKEN if accepted else None,
            price + "0000" if accepted else None,
            price + "0000" if done else None,
            None,
            None,
            "cancelled_by_user" if status == "cancelled" else None,
            *(None, None, None),
        )
