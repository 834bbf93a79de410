"""Test that HTTP prices are parsed exactly, and that invalid prices change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from florin_server.rails.pricing.http import HttpPriceFetcher, PriceQuery
from florin_server.rails.pricing.market import LastPrice
from florin_server.rails.pricing.settings import HttpSourceSettings

NOW = 1_800_000_000_000_000


class Shop:
    """A price service that answers as a test sets."""

    def __init__(self) -> None:
        self.body = b'{"data": [{"ETH": {"USD": 2500.10}}]}'
        self.status = 200
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.hang = False
        self.closing = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.path_qs, request.headers.get("x-key")))
        if self.hang:
            await self.closing.wait()
        return web.Response(body=self.body, status=self.status, headers=self.headers)


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", shop.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield shop
    shop.closing.set()
    await runner.cleanup()


def make_last_price() -> LastPrice:
    return LastPrice("http:shop", 300, 20)


async def fetch_prices(shop: Shop, *pairs: tuple[str, str], **changes: object) -> list[LastPrice]:
    """Return the prices after one refresh."""
    source = HttpSourceSettings(
        **{"url": f"{shop.url}/all", "path": ["data", "0", "{base}", "{quote}"], **changes}
    )
    queries = [
        PriceQuery(base, quote, make_last_price()) for base, quote in pairs or (("ETH", "USD"),)
    ]
    prices = HttpPriceFetcher(source, queries)
    try:
        await prices.refresh(NOW)
    finally:
        await prices.close()
    return [query.last_price for query in queries]


@pytest.mark.parametrize(
    ("number", "price"),
    [
        ("2500.10", "2500.10"),
        ('"2500.10"', "2500.10"),
        ("0.100000000000000005551115123126", "0.100000000000000005551115123126"),
        ("1e3", "1000"),
        ("1.25e-5", "0.0000125"),
        ("9007199254740993", "9007199254740993"),
    ],
)
async def test_price_is_read_exactly_as_written(shop, number, price):
    shop.body = f'{{"data": [{{"ETH": {{"USD": {number}}}}}]}}'.encode()
    (last_price,) = await fetch_prices(shop)
    rate = last_price.find_rate(NOW)
    assert rate is not None, last_price.fault
    assert (rate.price, rate.source, rate.at_us) == (price, "http:shop", NOW)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"data": [{"ETH": {"USD": NaN}}]}', "not JSON"),
        (b'{"data": []}', "nothing at '0'"),
        (b'{"data": {"0": {"ETH": {}}}}', "nothing at 'USD'"),
        (b'{"data": [{"ETH": {"USD": null}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": true}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": -1}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": "1,5"}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": "1_000"}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": " 1"}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": "1e9999"}}]}', "no number"),
        (b'{"data": [{"ETH": {"USD": 0}}]}', "out of range"),
        (b'{"data": [{"ETH": {"USD": 1e300}}]}', "out of range"),
        (b'{"data": [{"ETH": {"USD": 1e-300}}]}', "out of range"),
        (b'{"data": [{"ETH": {"USD": ' + b"9" * 5000 + b"}}]}", "not JSON"),
        (b'{"data": [{"ETH": {"USD": "' + b"9" * 65 + b'"}}]}', "no number"),
    ],
)
async def test_invalid_price_is_reported(shop, body, fault):
    shop.body = body
    (last_price,) = await fetch_prices(shop)
    assert last_price.find_rate(NOW) is None
    assert fault in last_price.fault


@pytest.mark.parametrize("status", [204, 301, 302, 307, 403, 404, 429, 500])
async def test_other_answers_are_no_prices_and_are_not_followed(shop, status):
    shop.status = status
    shop.headers = {"location": f"{shop.url}/elsewhere"}
    (last_price,) = await fetch_prices(shop)
    assert last_price.fault == f"127.0.0.1 answered HTTP {status}"
    assert [path for path, _ in shop.requests] == ["/all"]


async def test_an_answer_that_is_too_long_is_not_read(shop):
    shop.body = b" " * 2_000_000
    (last_price,) = await fetch_prices(shop)
    assert "longer answer than Florin reads" in last_price.fault
    shop.body = b'{"data": [{"ETH": {"USD": 2500}}]}'
    (last_price,) = await fetch_prices(shop, answer_bytes_max=len(shop.body))
    assert last_price.find_rate(NOW)


async def test_a_slow_service_is_not_waited_for(shop):
    shop.hang = True
    (last_price,) = await fetch_prices(shop, timeout_s=0.05)
    assert last_price.fault == "127.0.0.1 did not answer in time"


async def test_unreachable_price_source_is_reported_without_its_address():
    source = HttpSourceSettings(url="http://127.0.0.1:1/secret-key", path=("price",))
    last_price = make_last_price()
    prices = HttpPriceFetcher(source, [PriceQuery("ETH", "USD", last_price)])
    await prices.refresh(NOW)
    await prices.close()
    assert last_price.fault.startswith("127.0.0.1: ")
    assert "secret" not in last_price.fault


async def test_each_price_url_is_requested_once_with_the_key(shop):
    shop.body = b'{"data": [{"ETH": {"USD": 2500, "EUR": 2300}, "POL": {"USD": 0.5}}]}'
    pairs = (("ETH", "USD"), ("ETH", "EUR"), ("POL", "USD"), ("POL", "EUR"))
    last_prices = await fetch_prices(shop, *pairs, headers={"x-key": "k"})
    assert [
        last_price.find_rate(NOW) and last_price.find_rate(NOW).price for last_price in last_prices
    ] == ["2500", "2300", "0.5", None]
    assert shop.requests == [("/all", "k")]
    shop.requests.clear()
    await fetch_prices(shop, *pairs, url=f"{shop.url}/{{base}}?in={{quote}}")
    assert sorted(path for path, _ in shop.requests) == [
        "/ETH?in=EUR",
        "/ETH?in=USD",
        "/POL?in=EUR",
        "/POL?in=USD",
    ]


@pytest.mark.parametrize(
    ("time", "has_rate"), [("1799999800", True), ("1799999699", False), ("1800000100", False)]
)
async def test_price_time_of_the_source_is_used_within_its_limits(shop, time, has_rate):
    shop.body = f'{{"price": "2500", "at": {time}}}'.encode()
    (last_price,) = await fetch_prices(shop, path=["price"], time_path=["at"])
    rate = last_price.find_rate(NOW)
    assert (rate is not None) is has_rate, last_price.fault
    if rate:
        assert rate.at_us == int(time) * 1_000_000


def test_a_key_is_not_printed():
    source = HttpSourceSettings(url="https://a.example/", path=("p",), headers={"x-key": "hidden"})
    assert "hidden" not in repr(source)
