"""Prices over HTTP are read exactly, and what is no price leaves things as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from florin_server.pricing.http import HttpPrices, Wanted
from florin_server.pricing.market import Kept
from florin_server.pricing.settings import HttpSource

NOW = 1_800_000_000_000_000


class Shop:
    """A service that tells prices, or whatever a test makes it say."""

    def __init__(self) -> None:
        self.body = b'{"data": [{"ETH": {"USD": 2500.10}}]}'
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.hang = False
        self.closing = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path_qs, request.headers.get("x-key")))
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


def kept() -> Kept:
    return Kept("http:shop", 300, 20)


async def told(shop: Shop, *pairs: tuple[str, str], **changes: object) -> list[Kept]:
    """What is known after one look."""
    source = HttpSource(
        **{"url": f"{shop.url}/all", "path": ["data", "0", "{base}", "{quote}"], **changes}
    )
    wanted = [Wanted(base, quote, kept()) for base, quote in pairs or (("ETH", "USD"),)]
    prices = HttpPrices(source, wanted)
    try:
        await prices.refresh(NOW)
    finally:
        await prices.close()
    return [one.kept for one in wanted]


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
async def test_a_price_is_what_was_written(shop, number, price):
    shop.body = f'{{"data": [{{"ETH": {{"USD": {number}}}}}]}}'.encode()
    (one,) = await told(shop)
    rate = one.rate(NOW)
    assert rate is not None, one.fault
    assert (rate.price, rate.source, rate.at_us) == (price, "http:shop", NOW)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "no JSON"),
        (b"<html>", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 200_000, "no JSON"),
        (b'{"data": [{"ETH": {"USD": NaN}}]}', "no JSON"),
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
        (b'{"data": [{"ETH": {"USD": ' + b"9" * 5000 + b"}}]}", "no JSON"),
        (b'{"data": [{"ETH": {"USD": "' + b"9" * 65 + b'"}}]}', "no number"),
    ],
)
async def test_what_is_no_price_is_told(shop, body, fault):
    shop.body = body
    (one,) = await told(shop)
    assert one.rate(NOW) is None
    assert fault in one.fault


@pytest.mark.parametrize("status", [204, 301, 302, 307, 403, 404, 429, 500])
async def test_other_answers_are_no_prices_and_are_not_followed(shop, status):
    shop.status = status
    shop.headers = {"location": f"{shop.url}/elsewhere"}
    (one,) = await told(shop)
    assert one.fault == f"127.0.0.1 answered HTTP {status}"
    assert [path for path, _ in shop.asked] == ["/all"]


async def test_an_answer_that_is_too_long_is_not_read(shop):
    shop.body = b" " * 2_000_000
    (one,) = await told(shop)
    assert "more than we read" in one.fault
    shop.body = b'{"data": [{"ETH": {"USD": 2500}}]}'
    (one,) = await told(shop, answer_bytes_max=len(shop.body))
    assert one.rate(NOW)


async def test_a_slow_service_is_not_waited_for(shop):
    shop.hang = True
    (one,) = await told(shop, timeout_s=0.05)
    assert one.fault == "127.0.0.1 did not answer in time"


async def test_nobody_there_is_told_without_the_address():
    source = HttpSource(url="http://127.0.0.1:1/secret-key", path=("price",))
    one = kept()
    prices = HttpPrices(source, [Wanted("ETH", "USD", one)])
    await prices.refresh(NOW)
    await prices.close()
    assert one.fault.startswith("127.0.0.1: ")
    assert "secret" not in one.fault


async def test_each_address_is_asked_once_with_the_key(shop):
    shop.body = b'{"data": [{"ETH": {"USD": 2500, "EUR": 2300}, "POL": {"USD": 0.5}}]}'
    pairs = (("ETH", "USD"), ("ETH", "EUR"), ("POL", "USD"), ("POL", "EUR"))
    found = await told(shop, *pairs, headers={"x-key": "k"})
    assert [one.rate(NOW) and one.rate(NOW).price for one in found] == ["2500", "2300", "0.5", None]
    assert shop.asked == [("/all", "k")]
    shop.asked.clear()
    await told(shop, *pairs, url=f"{shop.url}/{{base}}?in={{quote}}")
    assert sorted(path for path, _ in shop.asked) == [
        "/ETH?in=EUR",
        "/ETH?in=USD",
        "/POL?in=EUR",
        "/POL?in=USD",
    ]


@pytest.mark.parametrize(
    ("time", "known"), [("1799999800", True), ("1799999699", False), ("1800000100", False)]
)
async def test_a_source_may_tell_the_time_of_its_price(shop, time, known):
    shop.body = f'{{"price": "2500", "at": {time}}}'.encode()
    (one,) = await told(shop, path=["price"], time_path=["at"])
    rate = one.rate(NOW)
    assert (rate is not None) is known, one.fault
    if rate:
        assert rate.at_us == int(time) * 1_000_000


def test_a_key_is_not_printed():
    source = HttpSource(url="https://a.example/", path=("p",), headers={"x-key": "hidden"})
    assert "hidden" not in repr(source)
