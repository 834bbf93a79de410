"""Stores to export, filled with complete payments by the store's own operations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from florin_server.db.engine.query import Op, operation
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.domain.cipher import Cipher
from florin_server.domain.exports.error import ExportError
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.ids import generate_payment_id
from florin_server.domain.ledger import postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import TransactionOutcome, TxState
from florin_server.features.exports.service import folder
from florin_server.features.exports.service.feeds import ExportOrigin
from florin_server.features.exports.service.formats import ExportFormat
from florin_server.features.exports.service.run import PART_ROWS, ExportRun
from florin_server.features.exports.service.store_feed import create_store_origin
from florin_server.money.payments.store import payments
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs, payment_outcomes, settlement_items

from tests.support import store_factories
from tests.support.store_factories import ASSET, CHAIN, COIN, LEASE, PAYER, SENDER

START_US = 1_800_000_000_000_000
MINUTE_US = 60_000_000
# nothing of a test is made later
LATE_US = 2 * START_US
SHOP, TREASURY = f"{CHAIN}:0x{'dd' * 20}", f"{CHAIN}:0x{'ee' * 20}"
FEE = 10
ORIGIN = "0123456789abcdef"


@dataclass
class ExportStoreBuilder:
    """Makes payments one after the other; `at_us` is the time, and advances with each."""

    epoch: int
    seed: int = 7
    at_us: int = START_US
    step_us: int = MINUTE_US
    merchant: str = "mer_1"
    hashes: bool = True  # False as on Solana

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.count = 0

    @operation
    def create_payment(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """Make a waiting payment with two options, one of which was fetched."""
        self.at_us += self.step_us
        self.count += 1
        payment = store_factories.make_payment(
            id=generate_payment_id(self.at_us, self.chance.randbytes),
            merchant_id=self.merchant,
            created_at_us=self.at_us,
            updated_at_us=self.at_us,
            expires_at=self.at_us // 1_000_000 + 900,
            **changes,
        )
        yield from payments.create(payment)
        offered = store_factories.make_option(
            payment, value=value, created_at_us=self.at_us + 1_000_000, fee=FEE, fee_fixed=FEE
        )
        yield from payments.put_options([offered, replace(offered, id="opt_2", reference=None)])
        yield from payments.put_resolved_build(
            store_factories.make_resolved_build(payment, issued_at_us=self.at_us + 2_000_000)
        )
        return payment

    @operation
    def create_confirmed(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """Make a confirmed payment that waits for its transaction."""
        payment = yield from self.create_payment(value, **changes)
        offered = yield from payments.find_option(payment.id, "opt_1")
        bound = store_factories.make_confirmation(payment, at_us=self.at_us + 3_000_000)
        at = self.at_us + 3_000_000
        done = yield from payments.accept(bound, offered, 7, ("Purse", None), at, app="app_1")
        assert done is not None
        return done

    @operation
    def create_paid(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """Make a settled payment: the merchant has its share, the fee is earned, gas was paid."""
        payment = yield from self.create_confirmed(value, **changes)
        yield from self.settle(payment, value)
        return payment

    @operation
    def settle(self, payment: Payment, value: int) -> Op[None]:
        """Send the one transaction of a payment, and record it as final."""
        at = self.at_us + 5_000_000
        tx_hash = f"0x{self.chance.randbytes(32).hex()}"
        tx = store_factories.make_chain_tx(
            payment, hash=tx_hash, created_at_us=at, nonce=self.count
        )
        claim = settlement_items.claim(tx.item_ids)
        yield from chain_txs.append(tx, self.epoch, LEASE, claim)
        yield from chain_txs.record_broadcasts({tx.id: 10 + self.count})
        received = PaymentProceeds(ASSET, PAYER, value, FEE, SHOP, TREASURY, True, False, False)
        outcome = replace(
            store_factories.make_success(payment, value),
            tx_hash=tx_hash,
            settled_value=value - FEE,
            postings=postings.build_settlement_postings(received, payment.merchant_id),
        )
        ended = TransactionOutcome(
            tx.id,
            TxState.FINAL,
            11 + self.count,
            f"0x{self.count:064x}" if self.hashes else "",
            postings.build_gas_postings(f"{CHAIN}:{SENDER}", COIN, 21_000 * 10**9, 0),
        )
        yield from payment_outcomes.finalize([outcome], [ended], at + 2_000_000)

    @operation
    def refund(self, payment: Payment, value: int) -> Op[str]:
        """Request a refund of a payment that succeeded."""
        existing = yield from refunds.list_refunds(payment.id)
        new = f"rfnd_{self.count:016}{len(existing)}"
        at = self.at_us + 9_000_000
        unit = f"caip19/{ASSET}"
        refund = Refund(new, payment.id, unit, value, PAYER, RefundStatus.PENDING, None, at)
        version, ordinal = (yield from refunds.get_next_version(payment.id)), len(existing) + 1
        yield from refunds.create(replace(refund, version=version, ordinal=ordinal))
        kind = PayoutKind.REFUND
        payout = Payout(
            new, kind, payment.merchant_id, payment.id, False, CHAIN, ASSET, value, PAYER, at
        )
        yield from payouts.add(payout)
        return new


@operation
def make_payments(shop: ExportStoreBuilder, count: int) -> Op[None]:
    """Make `count` payments: of ten, seven are paid, one is confirmed, two wait."""
    for number in range(count):
        if number % 10 < 7:
            yield from shop.create_paid()
        elif number % 10 == 7:
            yield from shop.create_confirmed()
        else:
            yield from shop.create_payment()


def get_decimals(unit: str) -> int | None:
    """Return six for the token, two for dollars; None for the coin, whose decimals are unknown."""
    return {"iso4217/USD": 2, ASSET: 6, f"caip19/{ASSET}": 6}.get(unit)


@contextmanager
def open_origin(
    path: Path, seal: Cipher | None = None, id_: str = ORIGIN, now_us: int = LATE_US
) -> Iterator[ExportOrigin]:
    """Open the source that an export of a store reads."""
    with closing(SqliteStoreReader(path)) as store:
        yield create_store_origin(store, id_, get_decimals, seal or Cipher(), now_us)


def export_store(
    store: Path,
    to: Path,
    format_: str = "csv",
    *names: str,
    since: Path | None = None,
    personal: bool = False,
    part_rows: int = PART_ROWS,
    seal: Cipher | None = None,
    id_: str = ORIGIN,
) -> dict[str, int]:
    """Export a store; return the number of rows written of each table."""
    with open_origin(store, seal, id_) as origin:
        existing = {*origin.tables, *folder.BUYER_DATA_TABLES}
        tables = folder.select_tables(names, existing, personal=personal)
        cursor = None if since is None else folder.read_manifest(since).cursor
        shape = folder.ExportSpec(ExportFormat(format_), tables, personal)
        with folder.open_folder(to, shape, origin.id, cursor) as into:
            return ExportRun(into, origin, part_rows).export_all()


def read_rows(to: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of an export as JSON Lines, part by part, in file order."""
    return [
        json.loads(line)
        for file in sorted((to / table).glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def keep_newest(rows: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """Keep the last of the rows with the same key, without the number of its part."""
    key = TABLES[table].key
    results = {tuple(row[name] for name in key): row for row in rows}
    return [{name: row[name] for name in row if name != "part"} for row in results.values()]


def sum_postings(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """Return debits less credits of an export's postings by account and asset."""
    results: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        results[row["debit"], row["asset"]] += int(row["amount_minor"])
        results[row["credit"], row["asset"]] -= int(row["amount_minor"])
    return {key: total for key, total in results.items() if total}


def read_tables(to: Path) -> dict[str, list[dict[str, Any]]]:
    """Return every table of an export, each row once, in no particular order."""
    return {
        name: sorted(keep_newest(read_rows(to, name), name), key=str)
        for name in folder.read_manifest(to).parts
    }


def get_refusal(call: Callable[[], Any]) -> str:
    """Return the sentence that refuses an export."""
    try:
        call()
    except ExportError as error:
        return str(error)
    raise AssertionError("it was exported")
