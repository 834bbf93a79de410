"""Ledgers of several months with every kind of journal, and what a statement must say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from florin_server.accounts.store import merchants
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import Partner
from florin_server.domain.ledger import postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payments.payment import Merchant, Payment
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


@dataclass(frozen=True)
class LedgerEvent:
    """A journal to book; `payment` and `proceeds` are drawn even where it needs less."""

    kind: str
    month: str
    at_us: int
    payment: Payment
    proceeds: PaymentProceeds

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.payment.id}"


@dataclass
class LedgerWriter:
    """Books random journals, and adds up what they mean, apart from the code under test."""

    store: Store
    seed: int
    # in minor units
    largest: int = 10**30
    # by (merchant, month, asset, line)
    totals: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    # journals as they were booked: (at_us, merchant, transfers)
    booked: list[tuple[int, str, Sequence[LedgerPosting]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
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
        kinds += ("refund", "return", "payout", "gas", "reversed", "direct_owing", "deposit")
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
        """Book a journal of a kind, of a new payment if the kind has one."""
        event = self._draw(kind, shop, month, at_us)
        if kind not in {"payout", "gas", "deposit"}:
            await self.store.write(payments.create(event.payment))
        if kind in {"settle", "direct", "direct_owing", "reversed", "release"}:
            await self._settle(event)
        elif kind in {"late", "late_direct", "held"}:
            await self._receive(event)
        else:
            await self._send(event)

    def _draw(self, kind: str, shop: tuple[str, str, bool], month: str, at_us: int) -> LedgerEvent:
        merchant_id, partner_id, live = shop
        value = self.chance.choice((1_000, 12_500_000, self.largest)) + self.chance.randrange(1_000)
        self._count += 1
        payment = make_payment(
            id=f"pay_report{self._count:05}",
            merchant_id=merchant_id,
            partner_id=partner_id,
            live=live,
            value=self.chance.randrange(1, 10_000),
            reference_id=f"order {self._count}",
        )
        direct, owing = "direct" in kind, "owing" in kind
        fee = self.chance.choice((0, 7, value // 100))
        proceeds = PaymentProceeds(
            asset=self.chance.choice((DOLLAR, EURO)),
            payer=self.chance.choice(PAYERS),
            value=value,
            fee=0 if owing else fee,
            owed_fee=fee if owing else 0,
            dest=OWN if direct else TREASURY,
            fee_to=TREASURY,
            is_merchant_account=direct,
            is_own_wallet=not direct,
            is_owed=not direct,
        )
        return LedgerEvent(kind, month, at_us, payment, proceeds)

    async def _settle(self, event: LedgerEvent) -> None:
        payment, proceeds = event.payment, event.proceeds
        if event.kind == "release":
            held = f"held:{proceeds.payer}"
            shares = (
                (f"merchant:{payment.merchant_id}", proceeds.value - proceeds.fee),
                ("income:fee", proceeds.fee),
            )
            legs = tuple(
                LedgerPosting(held, account, proceeds.asset, share)
                for account, share in shares
                if share
            )
            self._add(event, held_out=proceeds.value)
        else:
            legs = postings.build_settlement_postings(proceeds, payment.merchant_id)
        await self._post(event, "settle", legs)
        if event.kind == "reversed":
            await self.store.write(ledger.reverse(event.key, event.at_us))
            self.booked.append((event.at_us, payment.merchant_id, postings.reverse_postings(legs)))
            return
        direct = proceeds.value - proceeds.fee if event.kind.startswith("direct") else 0
        fees = proceeds.fee + proceeds.owed_fee
        self._add(event, payments=1, received=proceeds.value, fees=fees, settled_directly=direct)
        key = (payment.merchant_id, event.month, payment.unit, "requested")
        self.totals[key] += payment.value

    async def _receive(self, event: LedgerEvent) -> None:
        proceeds = event.proceeds
        if event.kind == "held":
            await self._post(event, "held", postings.build_held_postings(proceeds))
            self._add(event, held_in=proceeds.value)
            return
        legs = postings.build_late_postings(proceeds, event.payment.merchant_id)
        await self._post(event, "late", legs)
        direct = proceeds.value - proceeds.fee if event.kind == "late_direct" else 0
        self._add(event, other_received=proceeds.value, settled_directly=direct)

    async def _send(self, event: LedgerEvent) -> None:
        proceeds, value = event.proceeds, event.proceeds.value
        treasury, balance = f"wallet:{TREASURY}", f"merchant:{event.payment.merchant_id}"
        if event.kind == "gas":
            await self._post(event, "gas", postings.build_gas_postings(RELAYER, COIN, value, 5))
        elif event.kind == "return_held":
            leg = LedgerPosting(f"held:{proceeds.payer}", treasury, proceeds.asset, value)
            await self._post(event, "return", (leg,))
            self._add(event, held_out=value)
        elif event.kind == "deposit":
            legs = postings.build_merchant_deposit_postings(
                TREASURY, proceeds.asset, value, event.payment.merchant_id
            )
            await self._post(event, "operator", legs)
            self._add(event, other_received=value)
        else:
            leg = LedgerPosting(balance, treasury, proceeds.asset, value)
            await self._post(event, event.kind, (leg,))
            lines = {"refund": "refunded", "return": "returned", "payout": "paid_out"}
            self._add(event, **{f"{event.kind}s": 1, lines[event.kind]: value})

    async def _post(self, event: LedgerEvent, journal: str, legs: Sequence[LedgerPosting]) -> None:
        payment_id = None if event.kind in {"payout", "gas", "deposit"} else event.payment.id
        op = ledger.post(event.key, journal, payment_id, "0x1", legs, event.at_us)
        await self.store.write(op)
        shop = "" if event.kind == "gas" else event.payment.merchant_id
        self.booked.append((event.at_us, shop, legs))

    def _add(self, event: LedgerEvent, **amounts: int) -> None:
        for line, amount in amounts.items():
            key = (event.payment.merchant_id, event.month, event.proceeds.asset, line)
            self.totals[key] += amount

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
