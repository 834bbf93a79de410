"""A list is what a filter of all payments would be, however it is cut into pages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from florin_server.domain.ids import payment_id
from florin_server.domain.payments.payment import Payment, Status
from florin_server.flows.app import Caller
from florin_server.flows.payments import lists
from florin_server.flows.payments.lists import Wanted
from florin_server.store.engine.query import operation
from florin_server.store.payments import payments
from florin_server.store.payments.listing import Order, Totals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.desk import START_S, Desk

pytestmark = pytest.mark.asyncio(loop_scope="module")

START_US = START_S * 1_000_000
OTHER_CHAIN = "eip155:1"
GONE = f"{OTHER_CHAIN}/erc20:0x{'Ab' * 20}"
PAYERS = [f"{OTHER_CHAIN}:0x{digit * 40}" for digit in "12"]
REFERENCES = ["", "order-1", "Order-1", "100%", "1000", "a_b_c", "axbxc"]
PAID = (Status.PROCESSING, Status.SUCCEEDED)
_numbers = itertools.count()
# one test after the other shares the desk; each example has a partner of its own
FAIR = settings(
    max_examples=40,
    deadline=timedelta(seconds=20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass(frozen=True)
class Made:
    """A payment without its ids; `merchant` is one of two."""

    merchant: int
    ms: int
    us: int
    status: Status
    unit: int
    value: int
    reference: str
    overdue: bool
    payer: int
    paid_unit: int


MADE = st.builds(
    Made,
    merchant=st.integers(0, 1),
    ms=st.integers(0, 3),
    us=st.integers(0, 999),
    status=st.sampled_from(Status),
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


WANTED = st.builds(
    Wanted,
    order=st.builds(Order, st.booleans(), st.booleans()),
    limit=st.integers(1, 4),
    start_us=st.none() | SOME_US,
    end_us=st.none() | SOME_US,
    statuses=st.just([]) | st.lists(st.sampled_from(Status), min_size=1, max_size=3),
    symbols=_some(["TUSD", "tusd", "none"]),
    assets=_some([GONE, f"caip19/{GONE.lower()}", "caip19/<token>", "<token>"]),
    networks=_some([OTHER_CHAIN, "eip155:31337", "eip155:3133"]),
    reference=st.just("") | st.sampled_from(["order", "00%", "_b_", "100", "xbx"]),
)


class Shop:
    """A partner with two merchants, and the payments that it should be told of."""

    def __init__(self, desk: Desk) -> None:
        self.app = desk.service.app
        self.token = desk.env["FLORIN_EVM_ASSET"]
        self.partner = f"prtn_model{next(_numbers)}"
        self.caller = Caller(live=False, partner_id=self.partner)
        self.all: list[Payment] = []

    async def open(self, desk: Desk, made: list[Made]) -> None:
        desk.made_up = True
        tenants = [await desk.tenant() for _ in range(2)]
        self.merchants = [tenant.merchant.id for tenant in tenants]
        for tenant in tenants:
            await tenant.change_merchant(partner_id=self.partner)
        await self.add(made)

    async def add(self, made: list[Made]) -> None:
        new = [self._payment(one) for one in made]
        await self.app.store.write(_all_at_once(new))
        self.all += new

    def _payment(self, made: Made) -> Payment:
        now_s = self.app.clock.now_us() // 1_000_000
        at_us = START_US + made.ms * 1000 + made.us
        paid = made.status in PAID
        units = ["iso4217/USD", "iso4217/EUR", f"caip19/{self.token}", f"caip19/{GONE}"]
        return Payment(
            id=payment_id(at_us, self.app.randbytes),
            partner_id=self.partner,
            merchant_id=self.merchants[made.merchant],
            live=False,
            status=made.status,
            version=0,
            unit=units[made.unit],
            value=made.value,
            reference_id=made.reference,
            success_url=None,
            error_url=None,
            salt=b"",
            created_at_us=at_us,
            updated_at_us=at_us,
            expires_at=now_s if made.overdue else now_s + 10_000,
            payer=PAYERS[made.payer] if paid else None,
            option_unit=units[2 + made.paid_unit] if paid else None,
            option_value=made.value if paid else None,
        )

    def passing(self, wanted: Wanted) -> list[Payment]:
        """What the list should hold, in order."""
        key = (lambda p: (p.value, p.id)) if wanted.order.by_amount else (lambda p: p.id)
        passing = [one for one in self.all if self._passes(one, wanted)]
        return sorted(passing, key=key, reverse=wanted.order.descending)

    def _passes(self, one: Payment, wanted: Wanted) -> bool:
        kind, _, asset = (one.option_unit or one.unit).partition("/")
        asset = asset.lower() if kind == "caip19" else ""
        symbol = "tusd" if asset == self.token.lower() else ""
        wanted_assets = [a.removeprefix("caip19/").lower() for a in wanted.assets]
        return all(
            (
                wanted.start_us is None or one.created_at_us >= wanted.start_us,
                wanted.end_us is None or one.created_at_us < wanted.end_us,
                not wanted.statuses or self.status(one) in wanted.statuses,
                not wanted.symbols or symbol in [s.lower() for s in wanted.symbols],
                not wanted.assets or asset in wanted_assets,
                not wanted.networks or asset.partition("/")[0] in wanted.networks,
                wanted.reference in one.reference_id,
            )
        )

    def status(self, one: Payment) -> Status:
        return one.at(self.app.clock.now_us()).status

    def totals(self, passing: list[Payment]) -> Totals:
        revenue: dict[str, int] = {}
        for one in passing:
            if one.status is Status.SUCCEEDED:
                revenue[one.unit] = revenue.get(one.unit, 0) + one.value
        payers = {one.payer for one in passing if one.payer}
        return Totals(len(passing), len(payers), tuple(sorted(revenue.items())))


@operation
def _all_at_once(new: list[Payment]) -> Any:
    for one in new:
        yield from payments.create(one)


def _named(wanted: Wanted, shop: Shop) -> Wanted:
    return replace(wanted, assets=[a.replace("<token>", shop.token) for a in wanted.assets])


@pytest.fixture(params=["few", "many"], autouse=True)
def few(request, monkeypatch):
    """Both ways to read a list by amount."""
    monkeypatch.setattr(lists, "_FEW", 0 if request.param == "many" else 1000)


@FAIR
@given(made=st.lists(MADE, max_size=12), wanted=WANTED, which=st.sets(st.integers(0, 2)))
async def test_a_list_is_a_filter_of_all_payments(
    desk: Desk, made: list[Made], wanted: Wanted, which: set[int]
) -> None:
    shop = Shop(desk)
    await shop.open(desk, made)
    wanted = _named(wanted, shop)
    # the third is somebody else's
    names = [*shop.merchants, desk.env["FLORIN_MERCHANT_ID"]]
    chosen = [names[index] for index in sorted(which)]
    expected = [p for p in shop.passing(wanted) if not chosen or p.merchant_id in chosen]
    told, after = [], None
    while True:
        page = await lists.of_partner(shop.app, shop.caller, replace(wanted, cursor=after), chosen)
        assert page.totals == shop.totals(expected)
        told += page.rows
        if (after := page.next_cursor) is None:
            break
        assert len(page.rows) == wanted.limit
    assert [row.payment.id for row in told] == [one.id for one in expected]
    assert [row.payment.status for row in told] == [shop.status(one) for one in expected]
    assert [row.merchant.id for row in told] == [one.merchant_id for one in expected]


@FAIR
@given(
    made=st.lists(MADE, min_size=2, max_size=10),
    later=st.lists(MADE, min_size=1, max_size=10),
    wanted=WANTED,
)
async def test_new_payments_neither_repeat_nor_hide_a_row(
    desk: Desk, made: list[Made], later: list[Made], wanted: Wanted
) -> None:
    shop = Shop(desk)
    await shop.open(desk, made)
    wanted = _named(wanted, shop)
    before = {one.id for one in shop.passing(wanted)}
    told: list[str] = []
    after = None
    while True:
        page = await lists.of_partner(shop.app, shop.caller, replace(wanted, cursor=after), ())
        told += [row.payment.id for row in page.rows]
        if (after := page.next_cursor) is None:
            break
        new, later = later[:2], later[2:]
        await shop.add(new)
    assert len(told) == len(set(told))
    assert before <= set(told)
    in_order = [one.id for one in shop.passing(wanted)]
    assert told == [one for one in in_order if one in set(told)]
