"""The statement of a month in the merchant's console: exact, and of the key's merchants alone."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from fractions import Fraction

import pytest
import pytest_asyncio
from florin_server.domain.reports.period import get_month

from tests.support.books import SETTINGS
from tests.support.console import ConsoleUser
from tests.support.payout_merchant import DOLLAR, FEE, PRICE, USD, PayoutMerchant
from tests.support.service import NO_SOLANA
from tests.support.service_harness import open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/console/statement"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("statement")
    chosen = {**SETTINGS, "solana": NO_SOLANA, "console": True, "metrics_port": 0}
    async with open_service(home, **chosen) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(desk):
    """Yield a merchant with two payments, one of them refunded."""
    shop = PayoutMerchant(desk, await desk.tenant())
    wallet = EvmTestWallet(key=b"\5" * 32)
    for number in range(2):
        paid = await shop.create_paid_payment(wallet, USD)
        if number:
            await shop.refund(paid)
    return shop


@pytest.fixture
def month(desk) -> str:
    return get_month(desk.clock.now_us())


def read_lines(text: str) -> dict[str, list[dict[str, str]]]:
    lines = defaultdict(list)
    for row in csv.DictReader(io.StringIO(text)):
        lines[row["line"]].append(row)
    return lines


async def test_statement_shows_the_month_and_its_file_adds_up(shop, person, month):
    await person.sign_in(shop.tenant.secret)
    merchant = shop.tenant.merchant.id
    page = await person.get(f"{PATH}?month={month}&merchant={merchant}")
    assert page.status == 200
    assert f"Statement <bdi>{month}</bdi>" in page.text
    assert merchant in page.text
    # an asset is identified in full on paper
    assert DOLLAR.lower() in page.text.lower()
    assert "differs from the ledger" not in page.text
    export = await person.get(f"{PATH}/export?month={month}&merchant={merchant}")
    assert export.headers["content-type"] == "text/csv; charset=utf-8"
    lines = read_lines(export.text)
    (requested,) = lines["requested"]
    assert (requested["count"], requested["amount"], requested["currency"]) == ("2", "25.00", "USD")
    amounts = {key: Fraction(rows[0]["amount"]) * 10**6 for key, rows in lines.items()}
    assert amounts["payments"] == 2 * PRICE
    assert amounts["fees"] == -2 * FEE
    assert amounts["refunds"] == -PRICE
    assert lines["refunds"][0]["count"] == "1"
    moved = [
        *("opening_balance", "payments", "fees", "other_received"),
        *("settled_directly", "refunds", "returns", "payouts"),
    ]
    assert sum(amounts[key] for key in moved) == amounts["closing_balance"]
    owed = await shop.get_owed(f"erc20:{DOLLAR}")
    assert amounts["closing_balance"] == owed == PRICE - 2 * FEE


async def test_statement_of_all_merchants_has_only_those_of_the_key(
    desk, shop, person, bare, month
):
    await person.sign_in(shop.tenant.secret)
    assert "tUSD" in (await person.get(f"{PATH}?month={month}")).text
    other = await desk.tenant()
    stranger = ConsoleUser(bare, person.base)
    await stranger.sign_in(other.secret)
    page = await stranger.get(f"{PATH}?month={month}")
    assert "Nothing to report" in page.text
    for path in (PATH, f"{PATH}/export"):
        refused = await stranger.get(f"{path}?month={month}&merchant={shop.tenant.merchant.id}")
        assert refused.status == 404
        assert "25.00" not in refused.text


async def test_month_before_is_the_default_and_has_nothing(shop, person):
    await person.sign_in(shop.tenant.secret)
    page = await person.get(PATH)
    assert (page.status, "Nothing to report" in page.text) == (200, True)


@pytest.mark.parametrize(
    "query",
    [
        "month=2026-13",
        "month=%3Cscript%3E",
        "month=2026-10&zone=../../etc/passwd",
        "month=2026-10&zone=%3Cb%3E",
        "month=1999-01",
        "month=2026-10&merchant=mrch_none",
    ],
)
async def test_invalid_statement_is_refused_with_the_reason(shop, person, query):
    await person.sign_in(shop.tenant.secret)
    for path in (PATH, f"{PATH}/export"):
        page = await person.get(f"{path}?{query}")
        assert page.status in {400, 404, 422}
        assert "<script>" not in page.text
        assert "<b>" not in page.text


async def test_statement_needs_a_session(person):
    for path in (PATH, f"{PATH}/export"):
        page = await person.get(f"{path}?month=2026-10")
        assert page.location.startswith("/console/login")
