"""Prices from feeds on a chain, in the common format of aggregators.

A round counts if it is complete, its answer is above zero and its time is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.paying.payable import DECIMALS
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion
from florin_server.rails.pricing.market import LastPrice, PriceUnavailable
from florin_server.rails.pricing.prices import parse_decimal
from florin_server.rails.types import RailUnavailable

_LATEST_ROUND: Final = abi.encode_selector("latestRoundData()")
_ROUND_BYTES: Final = 5 * abi.WORD
_SIGN: Final = 1 << 255
_DECIMALS_MAX: Final = 30  # in a rate
_SECOND_US: Final = 1_000_000


class ContractReader(Protocol):
    """A reader of one chain."""

    async def read(self, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
        """Return an answer for each question; raise RailUnavailable if the read fails."""


@dataclass(frozen=True, slots=True)
class OracleFeed:
    """A feed's lower-case address, and where its price is recorded."""

    address: str
    last_price: LastPrice


class OraclePrices:
    """The feeds on one chain, read together."""

    def __init__(self, reader: ContractReader, feeds: Sequence[OracleFeed]) -> None:
        self._reader = reader
        self._feeds = feeds

    async def refresh(self, now_us: int) -> None:
        """Read every feed; record each price, or why it is missing."""
        addresses = [bytes.fromhex(feed.address[2:]) for feed in self._feeds]
        try:
            answers = await self._reader.read(
                [
                    question
                    for address in addresses
                    for question in (
                        ContractQuestion(address, _LATEST_ROUND, max_bytes=_ROUND_BYTES),
                        ContractQuestion(address, DECIMALS),
                    )
                ]
            )
        except RailUnavailable as fault:
            for feed in self._feeds:
                feed.last_price.record_failure(str(fault))
            return
        for feed, round_answer, decimals in zip(
            self._feeds, answers[::2], answers[1::2], strict=True
        ):
            try:
                feed.last_price.record_price(*_parse_round(round_answer, decimals), now_us)
            except PriceUnavailable as fault:
                feed.last_price.record_failure(str(fault))

    async def close(self) -> None:
        """Do nothing: another owner closes the chain's connections."""


def _parse_round(answer: ContractAnswer, decimals: ContractAnswer) -> tuple[str, int]:
    """Return a feed's price, and its time in microseconds."""
    round_id, raw_price, _, updated_at, answered_in = _parse_words(answer, 5)
    (scale,) = _parse_words(decimals, 1)
    if not round_id or answered_in < round_id or not updated_at:
        raise PriceUnavailable("the feed's round is not complete")
    if not 0 < raw_price < _SIGN:
        raise PriceUnavailable("the feed reports no price above zero")
    if scale > _DECIMALS_MAX:
        raise PriceUnavailable(f"the feed has {scale} decimals")
    digits = str(raw_price).rjust(scale + 1, "0")
    price = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    try:
        parse_decimal(price)
    except ValueError:
        raise PriceUnavailable("the feed's price is out of range") from None
    return price, updated_at * _SECOND_US


def _parse_words(answer: ContractAnswer, count: int) -> list[int]:
    if answer is None or not answer[0]:
        raise PriceUnavailable("the feed does not answer")
    if len(answer[1]) != count * abi.WORD:
        raise PriceUnavailable("no feed exists at its address")
    return [int.from_bytes(word, "big") for word in abi.split_words(answer[1])]
