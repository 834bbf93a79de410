"""A list equals a filter of all payments, for any page size."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from florin_server.db.engine.query import operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.ids import generate_payment_id
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.money.payments.service import lists
from florin_server.money.payments.service.lists import PaymentListQuery
from florin_server.money.payments.store import payments
from florin_server.money.payments.store.listing import PaymentListOrder, PaymentTotals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.service_harness import START_S, ServiceHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

START_US = START_S * 1_000_000
OTHER_CHAIN = "eip155:1"
GONE = f"{OTHER_CHAIN}/erc20:0x{'Ab' * 20}"
PAYERS = [f"{OTHER_CHAIN}:0x{digit * 40}" for digit in "12"]
REFERENCES = ["", "order-1", "Order-1", "100%", "1000", "a_b_c", "axbxc"]
PAID = (PaymentStatus.PROCESSING, PaymentStatus.SUCCEEDED)
_numbers = itertools.count()
# one test after the other shares the harness; each example has a partner of its own
FAIR = settings(
    max_examples=40,
    deadline=timedelta(seconds=20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass(frozen=True)
class PaymentDraft:
    """A payment without its ids; `merchant` is one of two."""

    merchant: int
    ms: int
    us: int
    status: PaymentStatus
    unit: int
    value: int
    reference: str
    overdue: bool
    payer: int
    paid_unit: int


DRAFTS = st.builds(
    PaymentDraft,
    merchant=st.integers(0, 1),
    ms=st.integers(0, 3),
    us=st.integers(0, 999),
    status=st.sampled_from(PaymentStatus),
    unit=st.integers(0, 3),
    value=st.sampled_from([1, 5, 5, 10, 99, 10**18, 10**30]),
    reference=st.sampled_from(REFERENCES),
    overdue=st.booleans(),
    payer=st.integers(0, 1),
    paid_unit=st.integers(0, 1),
)
SOME_US = st.integers(-1000, 5000).map(lambda us: START_US + us)


def _some(of: list[str]) -> Any:
    return st.just([]) | st.lists(st.sampled_from(of), min_size=1, max_size=2)


QUERIES = st.builds(
    PaymentListQuery,
    order=st.builds(PaymentListOrder, st.booleans(), st.booleans()),
    limit=st.integers(1, 4),
    start_us=st.none() | SOME_US,
    end_us=st.none() | SOME_US,
    statuses=st.just([]) | st.lists(st.sampled_from(PaymentStatus), min_size=1, max_size=3),
    symbols=_some(["TUSD", "tusd", "none"]),
    assets=_some([GONE, f"caip19/{GONE.lower()}", "caip19/<token>", "<token>"]),
    networks=_some([OTHER_CHAIN, "eip155:31337", "eip155:3133"]),
    reference=st.just("") | st.sampled_from(["order", "00%", "_b_", "100", "xbx"]),
)


class Shop:
    """A partner with two merchants, and the payments that its lists should have."""

    def __init__(self, desk: ServiceHarness) -> None:
        self.app = desk.service.app
        self.token = desk.env["FLORIN_EVM_ASSET"]
        self.partner = f"prtn_model{next(_numbers)}"
        self.caller = Caller(live=False, partner_id=self.partner)
        self.all: list[Payment] = []

    async def open(self, desk: ServiceHarness, drafts: list[PaymentDraft]) -> None:
        desk.has_simulated_chain = True
        tenants = [await desk.tenant() for _ in range(2)]
        self.merchants = [tenant.merchant.id for tenant in tenants]
        for tenant in tenants:
            await tenant.change_merchant(partner_id=self.partner)
        await self.add(drafts)

    async def add(self, drafts: list[PaymentDraft]) -> None:
        new = [self._payment(draft) for draft in drafts]
        await self.app.store.write(_all_at_once(new))
        self.all += new

    def _payment(self, draft: PaymentDraft) -> Payment:
        now_s = self.app.clock.now_us() // 1_000_000
        at_us = START_US + draft.ms * 1000 + draft.us
        paid = draft.status in PAID
        units = ["iso4217/USD", "iso4217/EUR", f"caip19/{self.token}", f"caip19/{GONE}"]
        return Payment(
            id=generate_payment_id(at_us, self.app.randbytes),
            partner_id=self.partner,
            merchant_id=self.merchants[draft.merchant],
            live=False,
            status=draft.status,
            version=0,
            unit=units[draft.unit],
            value=draft.value,
            reference_id=draft.reference,
            success_url=None,
            error_url=None,
            salt=b"",
            created_at_us=at_us,
            updated_at_us=at_us,
            expires_at=now_s if draft.overdue else now_s + 10_000,
            payer=PAYERS[draft.payer] if paid else None,
            option_unit=units[2 + draft.paid_unit] if paid else None,
            option_value=draft.value if paid else None,
        )

    def passing(self, query: PaymentListQuery) -> list[Payment]:
        """Return the payments that the list should have, in order."""
        key = (lambda p: (p.value, p.id)) if query.order.by_amount else (lambda p: p.id)
        passing = [payment for payment in self.all if self._passes(payment, query)]
        return sorted(passing, key=key, reverse=query.order.descending)

    def _passes(self, payment: Payment, query: PaymentListQuery) -> bool:
        kind, _, asset = (payment.option_unit or payment.unit).partition("/")
        asset = asset.lower() if kind == "caip19" else ""
        symbol = "tusd" if asset == self.token.lower() else ""
        wanted_assets = [a.removeprefix("caip19/").lower() for a in query.assets]
        return all(
            (
                query.start_us is None or payment.created_at_us >= query.start_us,
                query.end_us is None or payment.created_at_us < query.end_us,
                not query.statuses or self.status(payment) in query.statuses,
                not query.symbols or symbol in [s.lower() for s in query.symbols],
                not query.assets or asset in wanted_assets,
                not query.networks or asset.partition("/")[0] in query.networks,
                query.reference in payment.reference_id,
            )
        )

    def status(self, payment: Payment) -> PaymentStatus:
        return payment.with_expiry(self.app.clock.now_us()).status

    def totals(self, passing: list[Payment]) -> PaymentTotals:
        revenue: dict[str, int] = {}
        for payment in passing:
            if payment.status is PaymentStatus.SUCCEEDED:
                revenue[payment.unit] = revenue.get(payment.unit, 0) + payment.value
        payers = {each_payment.payer for each_payment in passing if each_payment.payer}
        return PaymentTotals(len(passing), len(payers), tuple(sorted(revenue.items())))


@operation
def _all_at_once(new: list[Payment]) -> Any:
    for payment in new:
        yield from payments.create(payment)


def _named(query: PaymentListQuery, shop: Shop) -> PaymentListQuery:
    return replace(query, assets=[a.replace("<token>", shop.token) for a in query.assets])


@pytest.fixture(params=["few", "many"], autouse=True)
def few(request, monkeypatch):
    """Both ways to read a list by amount."""
    monkeypatch.setattr(lists, "_COUNTED_MAX", 0 if request.param == "many" else 1000)


@FAIR
@given(drafts=st.lists(DRAFTS, max_size=12), query=QUERIES, which=st.sets(st.integers(0, 2)))
async def test_a_list_is_a_filter_of_all_payments(
    desk: ServiceHarness, drafts: list[PaymentDraft], query: PaymentListQuery, which: set[int]
) -> None:
    shop = Shop(desk)
    await shop.open(desk, drafts)
    query = _named(query, shop)
    # the third is another partner's
    names = [*shop.merchants, desk.env["FLORIN_MERCHANT_ID"]]
    chosen = [names[index] for index in sorted(which)]
    expected = [p for p in shop.passing(query) if not chosen or p.merchant_id in chosen]
    rows, after = [], None
    while True:
        page = await lists.list_for_partner(
            shop.app, shop.caller, replace(query, cursor=after), chosen
        )
        assert page.totals == shop.totals(expected)
        rows += page.rows
        if (after := page.next_cursor) is None:
            break
        assert len(page.rows) == query.limit
    assert [row.payment.id for row in rows] == [payment.id for payment in expected]
    assert [row.payment.status for row in rows] == [shop.status(payment) for payment in expected]
    assert [row.merchant.id for row in rows] == [payment.merchant_id for payment in expected]


@FAIR
@given(
    drafts=st.lists(DRAFTS, min_size=2, max_size=10),
    later_drafts=st.lists(DRAFTS, min_size=1, max_size=10),
    query=QUERIES,
)
async def test_new_payments_neither_repeat_nor_hide_a_row(
    desk: ServiceHarness,
    drafts: list[PaymentDraft],
    later_drafts: list[PaymentDraft],
    query: PaymentListQuery,
) -> None:
    shop = Shop(desk)
    await shop.open(desk, drafts)
    query = _named(query, shop)
    before = {payment.id for payment in shop.passing(query)}
    result: list[str] = []
    after = None
    while True:
        page = await lists.list_for_partner(shop.app, shop.caller, replace(query, cursor=after), ())
        result += [row.payment.id for row in page.rows]
        if (after := page.next_cursor) is None:
            break
        new, later_drafts = later_drafts[:2], later_drafts[2:]
        await shop.add(new)
    assert len(result) == len(set(result))
    assert before <= set(result)
    in_order = [payment.id for payment in shop.passing(query)]
    assert result == [text for text in in_order if text in set(result)]
