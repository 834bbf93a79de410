"""A price counts while it is young and believable, and the first source that has one is taken."""

from __future__ import annotations

from fractions import Fraction

import pytest
from florin_server.config import Settings
from florin_server.pricing.market import Kept, Market
from florin_server.pricing.prices import FixedPrices, Rate
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ETHER, OTHER = "eip155:31337/slip44:60", "eip155:1/slip44:60"
S = 1_000_000
NOW = 1_800_000_000 * S


def kept(source: str = "one", stale_s: int = 300, change_max_percent: int = 20) -> Kept:
    return Kept(source, stale_s, change_max_percent)


class Teller:
    """A source that tells what a test says; None: nothing."""

    def __init__(self, place: Kept, price: str | None) -> None:
        self.place, self.price, self.closed = place, price, False

    async def refresh(self, now_us: int) -> None:
        if self.price is None:
            self.place.miss("no answer")
        else:
            self.place.take(self.price, now_us, now_us)

    async def close(self) -> None:
        self.closed = True


def test_a_price_holds_until_it_is_too_old():
    one = kept()
    assert one.rate(NOW) is None
    one.take("2500", NOW, NOW)
    assert one.rate(NOW + 300 * S) == Rate("2500", "one", NOW)
    assert one.rate(NOW + 300 * S + 1) is None


def test_price_from_before_the_clock_was_set_back_is_replaced_and_not_believed():
    one, back = kept(), NOW - 7200 * S
    one.take("2500", NOW, NOW)
    assert one.rate(back) is None
    one.take("2600", back, back)
    assert (one.fault, one.rate(back)) == ("", Rate("2600", "one", back))


def test_a_source_that_is_silent_keeps_its_price_for_the_time():
    one = kept()
    one.take("2500", NOW, NOW)
    one.miss("no answer")
    assert one.fault == "no answer"
    assert one.rate(NOW + S) == Rate("2500", "one", NOW)


@pytest.mark.parametrize(
    ("price", "at_s", "fault"),
    [
        ("2600", -301, "too old"),
        ("2600", 61, "future"),
        ("2600", -20, "older than the one before"),
    ],
)
def test_a_price_from_another_time_changes_nothing(price, at_s, fault):
    one = kept()
    one.take("2500", NOW - 10 * S, NOW)
    one.take(price, NOW + at_s * S, NOW)
    assert fault in one.fault
    assert one.rate(NOW) == Rate("2500", "one", NOW - 10 * S)


@pytest.mark.parametrize("jump", ["3000.01", "1999.99", "25", "250000"])
def test_after_a_jump_neither_price_is_believed(jump):
    one = kept()
    one.take("2500", NOW, NOW)
    one.take(jump, NOW + S, NOW + S)
    assert one.rate(NOW + S) is None
    assert "jumped from 2500" in one.fault
    one.miss("no answer")
    assert one.rate(NOW + 2 * S) is None
    # it was a slip
    one.take("2501", NOW + 3 * S, NOW + 3 * S)
    assert one.rate(NOW + 3 * S) == Rate("2501", "one", NOW + 3 * S)


def test_a_jump_that_lasts_is_the_price_once_the_one_before_is_too_old():
    one = kept()
    one.take("2500", NOW, NOW)
    for second in range(0, 301, 50):
        one.take("1500", NOW + second * S, NOW + second * S)
        assert one.rate(NOW + second * S) is None
    one.take("1500", NOW + 301 * S, NOW + 301 * S)
    assert one.rate(NOW + 301 * S) == Rate("1500", "one", NOW + 301 * S)


@given(st.integers(1, 10**12), st.integers(0, 6), st.integers(1, 10**12), st.integers(0, 6))
def test_what_a_jump_is_is_exact(old, old_scale, new, new_scale):
    def text(digits: int, scale: int) -> str:
        padded = f"{digits:0{scale + 1}}"
        return f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded

    one = kept()
    one.take(text(old, old_scale), NOW, NOW)
    one.take(text(new, new_scale), NOW, NOW)
    before, after = Fraction(old, 10**old_scale), Fraction(new, 10**new_scale)
    assert (one.rate(NOW) is None) is (abs(after - before) > before / 5)


async def test_the_first_source_that_knows_is_believed():
    first, second = kept("first"), kept("second")
    tellers = [Teller(first, None), Teller(second, "2501")]
    ways = {(ETHER, "USD"): [first, second, "2400"]}
    market = Market(tellers, ways, FixedPrices({ETHER: {"USD": "1", "EUR": "2300"}}))
    assert market.rate(ETHER, "USD", NOW) == Rate("2400", "settings", NOW)
    await market.refresh(NOW)
    assert market.rate(ETHER, "USD", NOW) == Rate("2501", "second", NOW)
    tellers[0].price = "2502"
    await market.refresh(NOW)
    assert market.rate(ETHER, "USD", NOW) == Rate("2502", "first", NOW)
    # a pair without sources has the rate that was written down, or none
    assert market.rate(ETHER, "EUR", NOW) == Rate("2300", "settings", NOW)
    assert market.rate(OTHER, "USD", NOW) is None
    await market.close()
    assert all(teller.closed for teller in tellers)


async def test_a_written_rate_does_not_stand_in_for_sources(caplog):
    place = kept()
    teller = Teller(place, None)
    fixed = FixedPrices({ETHER: {"USD": "2500"}})
    market = Market([teller], {(ETHER, "USD"): [place]}, fixed)
    await market.refresh(NOW)
    await market.refresh(NOW)
    assert market.rate(ETHER, "USD", NOW) is None
    assert market.problems(NOW) == {(ETHER, "USD"): "one: no answer"}
    teller.price = "2500"
    await market.refresh(NOW)
    assert market.problems(NOW) == {}
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"nobody knows what {ETHER} costs in USD: one: no answer",
        f"it is known again what {ETHER} costs in USD",
    ]


@pytest.mark.parametrize(
    ("price", "about"),
    [("1", True), ("1.02", True), ("0.98", True), ("1.0201", False), ("0.9799", False)],
)
def test_a_peg_is_off_by_percents(price, about):
    assert Rate(price, "one", 0).is_about_one(2) is about


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


def test_what_a_source_calls_a_pair_cannot_leave_its_place():
    source = Settings(prices=prices()).prices.http["market"]
    assert source.url_of("ETH", "USD") == "https://prices.example/v1/ETH-USD"
    assert source.url_of("a/../b?c", "#&") == "https://prices.example/v1/a%2F..%2Fb%3Fc-%23%26"
