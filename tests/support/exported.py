"""Stores to export: payments that went all the way, made by the store's own operations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from florin_server.domain.exports.error import NotExported
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.ids import payment_id
from florin_server.domain.ledger import postings
from florin_server.domain.ledger.postings import Received
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.sealed import Seal
from florin_server.domain.settlement.chain_txs import TxEnd, TxState
from florin_server.flows.exports import folder
from florin_server.flows.exports.feeds import Origin
from florin_server.flows.exports.formats import Format
from florin_server.flows.exports.kept import of_store
from florin_server.flows.exports.run import PART_ROWS, Run
from florin_server.store.engine.query import Op, operation
from florin_server.store.engine.reading import Reading
from florin_server.store.payments import payments
from florin_server.store.payouts import payouts, refunds
from florin_server.store.settlement import chain_txs

from tests.support import store_kit
from tests.support.store_kit import ASSET, CHAIN, COIN, LEASE, PAYER, SENDER

START_US = 1_800_000_000_000_000
MINUTE_US = 60_000_000
# nothing of a test is made later
LATE_US = 2 * START_US
SHOP, TREASURY = f"{CHAIN}:0x{'dd' * 20}", f"{CHAIN}:0x{'ee' * 20}"
FEE = 10
ORIGIN = "0123456789abcdef"


@dataclass
class Shop:
    """Makes payments one after the other; `at_us` is the time, and moves with each."""

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
    def asked(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """A payment that waits, with two ways to pay it, one of which was fetched."""
        self.at_us += self.step_us
        self.count += 1
        made = store_kit.payment(
            id=payment_id(self.at_us, self.chance.randbytes),
            merchant_id=self.merchant,
            created_at_us=self.at_us,
            updated_at_us=self.at_us,
            expires_at=self.at_us // 1_000_000 + 900,
            **changes,
        )
        yield from payments.create(made)
        offered = store_kit.option(
            made, value=value, created_at_us=self.at_us + 1_000_000, fee=FEE, fee_fixed=FEE
        )
        yield from payments.put_options([offered, replace(offered, id="opt_2", reference=None)])
        yield from payments.put_issued(store_kit.issued(made, issued_at_us=self.at_us + 2_000_000))
        return made

    @operation
    def confirmed(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """The same, confirmed: it waits for its transaction."""
        made = yield from self.asked(value, **changes)
        offered = yield from payments.option(made.id, "opt_1")
        bound = store_kit.confirmation(made, at_us=self.at_us + 3_000_000)
        at = self.at_us + 3_000_000
        done = yield from payments.accept(bound, offered, 7, ("Purse", None), at, app="app_1")
        assert done is not None
        return done

    @operation
    def paid(self, value: int = 50_000_000, **changes: Any) -> Op[Payment]:
        """The same, settled: the merchant has its share, the fee is earned, gas was paid."""
        made = yield from self.confirmed(value, **changes)
        yield from self.settle(made, value)
        return made

    @operation
    def settle(self, made: Payment, value: int) -> Op[None]:
        """Sends the one transaction of a payment, and finds it final."""
        at = self.at_us + 5_000_000
        tx_hash = f"0x{self.chance.randbytes(32).hex()}"
        tx = store_kit.tx(made, hash=tx_hash, created_at_us=at, nonce=self.count)
        claim = chain_txs.claim(tx.item_ids)
        yield from chain_txs.append(tx, self.epoch, LEASE, claim)
        yield from chain_txs.sent({tx.id: 10 + self.count})
        received = Received(ASSET, PAYER, value, FEE, SHOP, TREASURY, True, False, False)
        found = replace(
            store_kit.success(made, value),
            tx_id=tx_hash,
            settled_value=value - FEE,
            postings=postings.settled(received, made.merchant_id),
        )
        ended = TxEnd(
            tx.id,
            TxState.FINAL,
            11 + self.count,
            f"0x{self.count:064x}" if self.hashes else "",
            postings.spent(f"{CHAIN}:{SENDER}", COIN, 21_000 * 10**9, 0),
        )
        yield from chain_txs.conclude([found], [ended], at + 2_000_000)

    @operation
    def refund(self, made: Payment, value: int) -> Op[str]:
        """Asks for a refund of a payment that succeeded."""
        existing = yield from refunds.list_refunds(made.id)
        new = f"rfnd_{self.count:016}{len(existing)}"
        at = self.at_us + 9_000_000
        unit = f"caip19/{ASSET}"
        asked = Refund(new, made.id, unit, value, PAYER, RefundStatus.PENDING, None, at)
        version, ordinal = (yield from refunds.next_version(made.id)), len(existing) + 1
        yield from refunds.create(replace(asked, version=version, ordinal=ordinal))
        kind = PayoutKind.REFUND
        one = Payout(new, kind, made.merchant_id, made.id, False, CHAIN, ASSET, value, PAYER, at)
        yield from payouts.add(one)
        return new


@operation
def many(shop: Shop, count: int) -> Op[None]:
    """So many payments: of ten, seven are paid, one is confirmed, two wait."""
    for number in range(count):
        if number % 10 < 7:
            yield from shop.paid()
        elif number % 10 == 7:
            yield from shop.confirmed()
        else:
            yield from shop.asked()


def decimals(unit: str) -> int | None:
    """Six for the token, two for dollars; of the coin nobody knows."""
    return {"iso4217/USD": 2, ASSET: 6, f"caip19/{ASSET}": 6}.get(unit)


@contextmanager
def origin(
    path: Path, seal: Seal | None = None, id_: str = ORIGIN, now_us: int = LATE_US
) -> Iterator[Origin]:
    """What an export of a store reads."""
    with closing(Reading(path)) as store:
        yield of_store(store, id_, decimals, seal or Seal(), now_us)


def export(
    store: Path,
    to: Path,
    format_: str = "csv",
    *names: str,
    since: Path | None = None,
    personal: bool = False,
    part_rows: int = PART_ROWS,
    seal: Seal | None = None,
    id_: str = ORIGIN,
) -> dict[str, int]:
    """Exports a store; tells how many rows were written of each table."""
    with origin(store, seal, id_) as found:
        known = {*found.tables, *folder.KEPT}
        tables = folder.named(names, known, personal=personal)
        begun = None if since is None else folder.read(since).cursor
        shape = folder.Shape(Format(format_), tables, personal)
        with folder.opened(to, shape, found.id, begun) as into:
            return Run(into, found, part_rows).all()


def lines(to: Path, table: str) -> list[dict[str, Any]]:
    """The rows of an export as JSON Lines, part by part, as they stand there."""
    return [
        json.loads(line)
        for file in sorted((to / table).glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def newest(rows: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """Of rows with one key the last one, without the number of its part."""
    key = TABLES[table].key
    found = {tuple(row[name] for name in key): row for row in rows}
    return [{name: row[name] for name in row if name != "part"} for row in found.values()]


def sums(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """What the postings of an export come to: account and asset, debits less credits."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        found[row["debit"], row["asset"]] += int(row["amount_minor"])
        found[row["credit"], row["asset"]] -= int(row["amount_minor"])
    return {key: total for key, total in found.items() if total}


def whole(to: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table of an export, each row once, in an order that says nothing."""
    return {name: sorted(newest(lines(to, name), name), key=str) for name in folder.read(to).parts}


def refused(call: Callable[[], Any]) -> str:
    """The sentence with which something is not exported."""
    try:
        call()
    except NotExported as error:
        return str(error)
    raise AssertionError("it was exported")
