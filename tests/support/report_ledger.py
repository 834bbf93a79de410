"""Ledgers of several months with every kind of journal, and what a statement must say of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from florin_server.accounts.store import merchants
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import Partner
from florin_server.domain.ledger import postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.reports.assets import ReportAsset, make_unknown_asset
from florin_server.domain.reports.period import parse_period
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments

from tests.support.store_factories import CHAIN, COIN, make_payment

DOLLAR, EURO = f"{CHAIN}/erc20:0x{'aa' * 20}", f"{CHAIN}/erc20:0x{'ab' * 20}"
TREASURY, RELAYER = f"{CHAIN}:0x{'ee' * 20}", f"{CHAIN}:0x{'ef' * 20}"
OWN = f"{CHAIN}:0x{'dd' * 20}"
PAYERS = tuple(f"{CHAIN}:0x{digit * 40}" for digit in "123")
MONTHS = ("2026-09", "2026-10", "2026-11")
OCTOBER = parse_period("2026-10")
ASSETS = {
    DOLLAR: ReportAsset(DOLLAR, "tUSD", "Devnet", 6, live=False),
    EURO: ReportAsset(EURO, "tEUR", "Devnet", 6, live=False),
    COIN: ReportAsset(COIN, "ETH", "Devnet", 18, live=False),
}
# merchants of two partners, and one of the other mode
SHOPS = (("mer_1", "par_1", False), ("mer_2", "par_1", False), ("mer_3", "par_2", False))
LIVE_SHOP = ("mer_4", "par_1", True)


def find_asset(asset: str) -> ReportAsset:
    return ASSETS.get(asset) or make_unknown_asset(asset)


@dataclass
class LedgerWriter:
    """Books random journals, and adds up what they mean, apart from the code under test."""

    store: Store
    seed: int
    # by (merchant, month, asset, line)
    totals: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    # journals as they were booked: (at_us, merchant, transfers)
    booked: list[tuple[int, str, Sequence[LedgerPosting]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self._held: dict[str, list[tuple[str, str, str, int]]] = defaultdict(list)
        self._count = 0

    async def add_accounts(self) -> None:
        for partner_id in ("par_1", "par_2"):
            partner = Partner(partner_id, partner_id, "2026-02-18", "active", 0)
            await self.store.write(merchants.put_partner(partner))
        for merchant_id, partner_id, live in (*SHOPS, LIVE_SHOP):
            merchant = Merchant(
                merchant_id,
                partner_id,
                f"Shop {merchant_id}",
                "a@b.example",
                None,
                "active",
                live,
                0,
            )
            await self.store.write(merchants.put_merchant(merchant))

    async def book(self, count: int) -> None:
        """Book journals at random times of three months, in random order."""
        kinds = ("settle", "direct", "late", "late_direct", "held", "release", "return_held")
        kinds += ("refund", "return", "payout", "gas", "reversed")
        for _ in range(count):
            shop = self.chance.choice((*SHOPS, LIVE_SHOP))
            month = self.chance.choice(MONTHS)
            period = parse_period(month)
            at_us = self.chance.randrange(period.start_us, period.end_us)
            if self.chance.random() < 0.1:
                at_us = self.chance.choice((period.start_us, period.end_us - 1))
            await self.book_one(self.chance.choice(kinds), shop, month, at_us)

    async def book_one(
        self, kind: str, shop: tuple[str, str, bool], month: str, at_us: int
    ) -> None:
        merchant_id, partner_id, live = shop
        asset = self.chance.choice((DOLLAR, EURO))
        value = self.chance.choice((1_000, 12_500_000, 10**30)) + self.chance.randrange(1_000)
        fee = self.chance.choice((0, 7, value // 100))
        payer = self.chance.choice(PAYERS)
        self._count += 1
        payment = make_payment(
            id=f"pay_report{self._count:05}",
            merchant_id=merchant_id,
            partner_id=partner_id,
            live=live,
            value=self.chance.randrange(1, 10_000),
            reference_id=f"order {self._count}",
        )
        key = f"{kind}:{payment.id}"
        proceeds = PaymentProceeds(
            asset,
            payer,
            value,
            fee,
            OWN if "direct" in kind else TREASURY,
            TREASURY,
            "direct" in kind,
            "direct" not in kind,
            "direct" not in kind,
        )

        def add(line: str, amount: int) -> None:
            self.totals[merchant_id, month, asset, line] += amount

        async def post(journal: str, legs: Sequence[LedgerPosting], *, paid: bool = True) -> None:
            await self.store.write(
                ledger.post(key, journal, payment.id if paid else None, "0x1", legs, at_us)
            )
            self.booked.append((at_us, merchant_id, legs))

        if kind not in {"payout", "gas"}:
            await self.store.write(payments.create(payment))
        if kind in {"settle", "direct", "reversed"}:
            legs = postings.build_settlement_postings(proceeds, merchant_id)
            await post("settle", legs)
            if kind == "reversed":
                await self.store.write(ledger.reverse(key, at_us))
                self.booked.append((at_us, merchant_id, postings.reverse_postings(legs)))
                return
            add("payments", 1)
            add("received", value)
            add("fees", fee)
            self.totals[merchant_id, month, payment.unit, "requested"] += payment.value
            if kind == "direct":
                add("settled_directly", value - fee)
        elif kind in {"late", "late_direct"}:
            await post("late", postings.build_late_postings(proceeds, merchant_id))
            add("other_received", value)
            if kind == "late_direct":
                add("settled_directly", value - fee)
        elif kind == "held":
            await post("held", postings.build_held_postings(proceeds))
            add("held_in", value)
        elif kind == "release":
            legs = (
                LedgerPosting(f"held:{payer}", f"merchant:{merchant_id}", asset, value - fee),
                LedgerPosting(f"held:{payer}", "income:fee", asset, fee),
            )
            await post("settle", tuple(leg for leg in legs if leg.amount))
            for line, amount in (
                ("payments", 1),
                ("received", value),
                ("fees", fee),
                ("held_out", value),
            ):
                add(line, amount)
            self.totals[merchant_id, month, payment.unit, "requested"] += payment.value
        elif kind == "return_held":
            await post(
                "return", (LedgerPosting(f"held:{payer}", f"wallet:{TREASURY}", asset, value),)
            )
            add("held_out", value)
        elif kind == "gas":
            coin = postings.build_gas_postings(RELAYER, COIN, value, 5)
            await self.store.write(
                ledger.post(f"{kind}:{self._count}", "gas", None, "0x1", coin, at_us)
            )
            self.booked.append((at_us, "", coin))
        else:
            out = (LedgerPosting(f"merchant:{merchant_id}", f"wallet:{TREASURY}", asset, value),)
            await post(kind, out, paid=kind != "payout")
            count, amount = {
                "refund": ("refunds", "refunded"),
                "return": ("returns", "returned"),
                "payout": ("payouts", "paid_out"),
            }[kind]
            add(count, 1)
            add(amount, value)

    def get_balance(self, shop: str, asset: str, before_us: int, prefix: str = "merchant:") -> int:
        """Return what a merchant is owed, or what is held of its payers, before a time."""
        total = 0
        for at_us, merchant_id, legs in self.booked:
            if at_us >= before_us or merchant_id != shop:
                continue
            for leg in legs:
                if leg.asset == asset:
                    total += leg.amount if leg.credit.startswith(prefix) else 0
                    total -= leg.amount if leg.debit.startswith(prefix) else 0
        return total
