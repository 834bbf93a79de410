"""Test that prices must be recent and plausible, and that the first usable source wins."""

from __future__ import annotations

from fractions import Fraction

import pytest
from florin_server.rails.pricing.market import LastPrice, MarketPrices
from florin_server.rails.pricing.prices import FixedPrices, PriceRate
from florin_server.settings import Settings
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ETHER, OTHER = "eip155:31337/slip44:60", "eip155:1/slip44:60"
S = 1_000_000
NOW = 1_800_000_000 * S


def build_last_price(
    source: str = "one", stale_s: int = 300, change_max_percent: int = 20
) -> LastPrice:
    return LastPrice(source, stale_s, change_max_percent)


class Teller:
    """A source that returns the price a test sets, or none."""

    def __init__(self, place: LastPrice, price: str | None) -> None:
        self.place, self.price, self.closed = place, price, False

    async def refresh(self, now_us: int) -> None:
        if self.price is None:
            self.place.record_failure("no answer")
        else:
            self.place.record_price(self.price, now_us, now_us)

    async def close(self) -> None:
        self.closed = True


def test_a_price_holds_until_it_is_too_old():
    last_price = build_last_price()
    assert last_price.find_rate(NOW) is None
    last_price.record_price("2500", NOW, NOW)
    assert last_price.find_rate(NOW + 300 * S) == PriceRate("2500", "one", NOW)
    assert last_price.find_rate(NOW + 300 * S + 1) is None


def test_price_from_before_the_clock_was_set_back_is_replaced_and_not_believed():
    last_price, back = build_last_price(), NOW - 7200 * S
    last_price.record_price("2500", NOW, NOW)
    assert last_price.find_rate(back) is None
    last_price.record_price("2600", back, back)
    assert (last_price.fault, last_price.find_rate(back)) == ("", PriceRate("2600", "one", back))


def test_a_source_that_is_silent_keeps_its_price_for_the_time():
    last_price = build_last_price()
    last_price.record_price("2500", NOW, NOW)
    last_price.record_failure("no answer")
    assert last_price.fault == "no answer"
    assert last_price.find_rate(NOW + S) == PriceRate("2500", "one", NOW)


@pytest.mark.parametrize(
    ("price", "at_s", "fault"),
    [
        ("2600", -301, "too old"),
        ("2600", 61, "future"),
        ("2600", -20, "older than the previous price"),
    ],
)
def test_a_price_from_another_time_changes_nothing(price, at_s, fault):
    last_price = build_last_price()
    last_price.record_price("2500", NOW - 10 * S, NOW)
    last_price.record_price(price, NOW + at_s * S, NOW)
    assert fault in last_price.fault
    assert last_price.find_rate(NOW) == PriceRate("2500", "one", NOW - 10 * S)


@pytest.mark.parametrize("jump", ["3000.01", "1999.99", "25", "250000"])
def test_after_a_jump_neither_price_is_believed(jump):
    last_price = build_last_price()
    last_price.record_price("2500", NOW, NOW)
    last_price.record_price(jump, NOW + S, NOW + S)
    assert last_price.find_rate(NOW + S) is None
    assert "jumped from 2500" in last_price.fault
    last_price.record_failure("no answer")
    assert last_price.find_rate(NOW + 2 * S) is None
    # the jump was an error
    last_price.record_price("2501", NOW + 3 * S, NOW + 3 * S)
    assert last_price.find_rate(NOW + 3 * S) == PriceRate("2501", "one", NOW + 3 * S)


def test_lasting_jump_becomes_the_price_once_the_previous_price_is_stale():
    last_price = build_last_price()
    last_price.record_price("2500", NOW, NOW)
    for second in range(0, 301, 50):
        last_price.record_price("1500", NOW + second * S, NOW + second * S)
        assert last_price.find_rate(NOW + second * S) is None
    last_price.record_price("1500", NOW + 301 * S, NOW + 301 * S)
    assert last_price.find_rate(NOW + 301 * S) == PriceRate("1500", "one", NOW + 301 * S)


@given(st.integers(1, 10**12), st.integers(0, 6), st.integers(1, 10**12), st.integers(0, 6))
def test_jump_threshold_is_exact(old, old_scale, new, new_scale):
    def text(digits: int, scale: int) -> str:
        padded = f"{digits:0{scale + 1}}"
        return f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded

    last_price = build_last_price()
    last_price.record_price(text(old, old_scale), NOW, NOW)
    last_price.record_price(text(new, new_scale), NOW, NOW)
    before, after = Fraction(old, 10**old_scale), Fraction(new, 10**new_scale)
    assert (last_price.find_rate(NOW) is None) is (abs(after - before) > before / 5)


async def test_the_first_source_that_knows_is_believed():
    first, second = build_last_price("first"), build_last_price("second")
    tellers = [Teller(first, None), Teller(second, "2501")]
    ways = {(ETHER, "USD"): [first, second, "2400"]}
    market = MarketPrices(tellers, ways, FixedPrices({ETHER: {"USD": "1", "EUR": "2300"}}))
    assert market.find_rate(ETHER, "USD", NOW) == PriceRate("2400", "settings", NOW)
    await market.refresh(NOW)
    assert market.find_rate(ETHER, "USD", NOW) == PriceRate("2501", "second", NOW)
    tellers[0].price = "2502"
    await market.refresh(NOW)
    assert market.find_rate(ETHER, "USD", NOW) == PriceRate("2502", "first", NOW)
    # a pair without sources has its configured rate, or none
    assert market.find_rate(ETHER, "EUR", NOW) == PriceRate("2300", "settings", NOW)
    assert market.find_rate(OTHER, "USD", NOW) is None
    await market.close()
    assert all(teller.closed for teller in tellers)


async def test_a_written_rate_does_not_stand_in_for_sources(caplog):
    place = build_last_price()
    teller = Teller(place, None)
    fixed = FixedPrices({ETHER: {"USD": "2500"}})
    market = MarketPrices([teller], {(ETHER, "USD"): [place]}, fixed)
    await market.refresh(NOW)
    await market.refresh(NOW)
    assert market.find_rate(ETHER, "USD", NOW) is None
    assert market.list_problems(NOW) == {(ETHER, "USD"): "one: no answer"}
    teller.price = "2500"
    await market.refresh(NOW)
    assert market.list_problems(NOW) == {}
    result = [record.getMessage() for record in caplog.records]
    assert result == [
        f"no source has a price of {ETHER} in USD: one: no answer",
        f"the price of {ETHER} in USD is available again",
    ]


@pytest.mark.parametrize(
    ("price", "about"),
    [("1", True), ("1.02", True), ("0.98", True), ("1.0201", False), ("0.9799", False)],
)
def test_a_peg_is_off_by_percents(price, about):
    assert PriceRate(price, "one", 0).is_about_one(2) is about


URL = "https://prices.example/v1/{base}-{quote}"
HTTP = {"kind": "http", "source": "market", "base": "ETH", "quote": "USD"}


def prices(*ways: dict, **source: object) -> dict:
    market = {"url": URL, "path": ["price"], **source}
    return {"http": {"market": market}, "pairs": {ETHER: {"USD": list(ways or [HTTP])}}}


def test_settings_name_sources_in_their_order():
    feed = "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419"
    oracle = {"kind": "oracle", "chain": "eip155:1", "feed": feed}
    given_prices = prices(oracle, HTTP, {"kind": "fixed", "price": "2500"})
    ways = Settings(prices=given_prices).prices.pairs[ETHER]["USD"]
    assert [way.kind for way in ways] == ["oracle", "http", "fixed"]
    assert ways[0].feed == feed.lower()


@pytest.mark.parametrize(
    "bad",
    [
        prices({**HTTP, "source": "other"}),
        prices({"kind": "guess"}),
        prices({"kind": "fixed", "price": "0"}),
        prices({"kind": "oracle", "chain": "eip155:1", "feed": "0x12"}),
        prices({"kind": "oracle", "chain": "mainnet", "feed": "0x" + "12" * 20}),
        prices({**HTTP, "change_max_percent": 0}),
        prices(url="http://prices.example/"),
        prices(url="http://10.0.0.1/"),
        prices(url="ftp://127.0.0.1/"),
        prices(url="https://{base}.example/"),
        prices(url="prices.example"),
        prices(path=[]),
        {"pairs": {ETHER: {"USD": []}}},
        {"pairs": {"ether": {"USD": [HTTP]}}},
    ],
)
def test_settings_that_cannot_be_are_refused(bad):
    with pytest.raises(ValidationError):
        Settings(prices=bad)


def test_plain_text_is_for_this_machine_only():
    for host in ("127.0.0.1:80", "localhost", "[::1]:8080"):
        assert Settings(prices=prices(url=f"http://{host}/{{base}}")).prices.http["market"]


def test_pair_name_is_escaped_in_the_source_url():
    source = Settings(prices=prices()).prices.http["market"]
    assert source.build_url("ETH", "USD") == "https://prices.example/v1/ETH-USD"
    assert source.build_url("a/../b?c", "#&") == "https://prices.example/v1/a%2F..%2Fb%3Fc-%23%26"
