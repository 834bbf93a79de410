"""Prices from a service that tells them in JSON over HTTPS."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from florin_server.pricing.market import Kept, PriceFault
from florin_server.pricing.prices import parse_decimal
from florin_server.pricing.settings import HttpSource

_READ_BYTES = 64 * 1024
_NUMBER_CHARACTERS = 64  # of a price or a time
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pair as the source calls it, and where its price is kept."""

    base: str
    quote: str
    kept: Kept


class HttpPrices:
    """One source. Each address is asked once for all prices that are there.

    Redirects are not followed, and its address is never told: it may hold the operator's key.
    """

    def __init__(self, source: HttpSource, wanted: Sequence[Wanted]) -> None:
        self._source = source
        self._host = urlsplit(source.url).hostname
        self._by_url: dict[str, list[Wanted]] = {}
        for one in wanted:
            self._by_url.setdefault(source.url_of(one.base, one.quote), []).append(one)
        self._session: aiohttp.ClientSession | None = None

    async def refresh(self, now_us: int) -> None:
        """Asks every address; each price is taken, or told why not."""
        await asyncio.gather(*(self._ask(url, now_us) for url in self._by_url))

    async def close(self) -> None:
        """Ends connections; a later question opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _ask(self, url: str, now_us: int) -> None:
        wanted = self._by_url[url]
        try:
            told = _parsed(await self._get(url))
        except PriceFault as fault:
            for one in wanted:
                one.kept.miss(str(fault))
            return
        for one in wanted:
            try:
                one.kept.take(*self._read(told, one, now_us), now_us)
            except PriceFault as fault:
                one.kept.miss(str(fault))

    def _read(self, told: Any, wanted: Wanted, now_us: int) -> tuple[str, int]:
        """A price and its time."""
        price = _plain(_at(told, self._path(self._source.path, wanted)))
        if self._source.time_path is None:
            return price, now_us
        time = _plain(_at(told, self._path(self._source.time_path, wanted)))
        return price, int(Decimal(time) * _SECOND_US)

    def _path(self, path: Iterable[str], wanted: Wanted) -> list[str]:
        return [
            step.replace("{base}", wanted.base).replace("{quote}", wanted.quote) for step in path
        ]

    async def _get(self, url: str) -> bytes:
        if self._session is None:
            headers = {
                name: value.get_secret_value() for name, value in self._source.headers.items()
            }
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._source.timeout_s),
                headers={"accept": "application/json", **headers},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    raise PriceFault(f"{self._host} answered HTTP {response.status}")
                answer = bytearray()
                async for piece in response.content.iter_chunked(_READ_BYTES):
                    answer += piece
                    if len(answer) > self._source.answer_bytes_max:
                        response.close()
                        raise PriceFault(f"{self._host} answered more than we read")
                return bytes(answer)
        except TimeoutError:
            raise PriceFault(f"{self._host} did not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            # the fault's text may hold the address
            raise PriceFault(f"{self._host}: {type(fault).__name__}") from None


def _parsed(answer: bytes) -> Any:
    """JSON whose numbers are the very texts that were sent."""
    try:
        # it is strict and bounds the depth, which the other one, who keeps numbers, does not
        orjson.loads(answer)
        return json.loads(answer, parse_float=str, parse_int=str)
    except ValueError:
        raise PriceFault("the answer is no JSON") from None


def _at(told: Any, path: Sequence[str]) -> Any:
    """The value at the end of a path."""
    for step in path:
        if isinstance(told, dict) and step in told:
            told = told[step]
        elif isinstance(told, list) and step.isascii() and step.isdigit() and int(step) < len(told):
            told = told[int(step)]
        else:
            raise PriceFault(f"the answer has nothing at {step!r} of {'.'.join(path)}")
    return told


def _plain(told: Any) -> str:
    """A number above zero as decimal text, exactly as it was told; also if it has an exponent."""
    if not isinstance(told, str) or len(told) > _NUMBER_CHARACTERS or not _NUMBER.fullmatch(told):
        raise PriceFault("the answer holds no number where one was expected")
    number = Decimal(told)
    try:
        # what is too large or small to be read is not written out first
        text = format(number, "f") if -30 <= number.adjusted() <= 30 else ""
        parse_decimal(text)
    except ValueError:
        raise PriceFault(f"the number {told} is out of range") from None
    return text
