"""Prices from a service that returns JSON over HTTPS."""

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

from florin_server.rails.pricing.market import LastPrice, PriceUnavailable
from florin_server.rails.pricing.prices import parse_decimal
from florin_server.rails.pricing.settings import HttpSourceSettings

_READ_BYTES = 64 * 1024
_NUMBER_CHARACTERS = 64  # of a price or a time
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """A pair as the source calls it, and where its price is kept."""

    base: str
    quote: str
    last_price: LastPrice


class HttpPriceFetcher:
    """One source. Each URL is called once for all its prices.

    Redirects are not followed, and the URL is never shown: it can contain the operator's key.
    """

    def __init__(self, source: HttpSourceSettings, queries: Sequence[PriceQuery]) -> None:
        self._source = source
        self._host = urlsplit(source.url).hostname
        self._by_url: dict[str, list[PriceQuery]] = {}
        for query in queries:
            self._by_url.setdefault(source.build_url(query.base, query.quote), []).append(query)
        self._session: aiohttp.ClientSession | None = None

    async def refresh(self, now_us: int) -> None:
        """Call every URL; each price is stored, or the reason for its absence."""
        await asyncio.gather(*(self._ask(url, now_us) for url in self._by_url))

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _ask(self, url: str, now_us: int) -> None:
        queries = self._by_url[url]
        try:
            message = _parse_json(await self._get(url))
        except PriceUnavailable as fault:
            for query in queries:
                query.last_price.record_failure(str(fault))
            return
        for query in queries:
            try:
                query.last_price.record_price(*self._parse_price(message, query, now_us), now_us)
            except PriceUnavailable as fault:
                query.last_price.record_failure(str(fault))

    def _parse_price(self, message: Any, query: PriceQuery, now_us: int) -> tuple[str, int]:
        """Return a price and its time."""
        price = _to_decimal_text(_get_member(message, self._fill_path(self._source.path, query)))
        if self._source.time_path is None:
            return price, now_us
        time = _to_decimal_text(
            _get_member(message, self._fill_path(self._source.time_path, query))
        )
        return price, int(Decimal(time) * _SECOND_US)

    def _fill_path(self, path: Iterable[str], query: PriceQuery) -> list[str]:
        return [step.replace("{base}", query.base).replace("{quote}", query.quote) for step in path]

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
                    raise PriceUnavailable(f"{self._host} answered HTTP {response.status}")
                answer = bytearray()
                async for piece in response.content.iter_chunked(_READ_BYTES):
                    answer += piece
                    if len(answer) > self._source.answer_bytes_max:
                        response.close()
                        raise PriceUnavailable(
                            f"{self._host} sent a longer answer than Florin reads"
                        )
                return bytes(answer)
        except TimeoutError:
            raise PriceUnavailable(f"{self._host} did not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            # the fault's text can contain the URL
            raise PriceUnavailable(f"{self._host}: {type(fault).__name__}") from None


def _parse_json(answer: bytes) -> Any:
    """Return JSON whose numbers are the very texts that were sent."""
    try:
        # it is strict and limits the depth, unlike the other parser, which keeps numbers
        orjson.loads(answer)
        return json.loads(answer, parse_float=str, parse_int=str)
    except ValueError:
        raise PriceUnavailable("the answer is not JSON") from None


def _get_member(message: Any, path: Sequence[str]) -> Any:
    """Return the value at the end of a path."""
    for step in path:
        if isinstance(message, dict) and step in message:
            message = message[step]
        elif (
            isinstance(message, list)
            and step.isascii()
            and step.isdigit()
            and int(step) < len(message)
        ):
            message = message[int(step)]
        else:
            raise PriceUnavailable(f"the answer has nothing at {step!r} of {'.'.join(path)}")
    return message


def _to_decimal_text(message: Any) -> str:
    """Return a number above zero as decimal text, exactly as sent; also if it has an exponent."""
    if (
        not isinstance(message, str)
        or len(message) > _NUMBER_CHARACTERS
        or not _NUMBER.fullmatch(message)
    ):
        raise PriceUnavailable("the answer contains no number at the configured path")
    number = Decimal(message)
    try:
        # numbers out of range are not written out first
        text = format(number, "f") if -30 <= number.adjusted() <= 30 else ""
        parse_decimal(text)
    except ValueError:
        raise PriceUnavailable(f"the number {message} is out of range") from None
    return text
