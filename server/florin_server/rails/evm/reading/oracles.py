"""Prices from feeds on a chain, of the form that aggregators have made usual.

A round counts if it is complete, its answer above zero and its time told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.chains.evm import abi
from florin_server.pricing.market import Kept, PriceFault
from florin_server.pricing.prices import parse_decimal
from florin_server.rails.evm.paying.payable import DECIMALS
from florin_server.rails.evm.reading.reads import Answer, Question
from florin_server.rails.types import RailUnavailable

_LATEST_ROUND: Final = abi.selector("latestRoundData()")
_ROUND_BYTES: Final = 5 * abi.WORD
_SIGN: Final = 1 << 255
_DECIMALS_MAX: Final = 30  # that a rate is written with
_SECOND_US: Final = 1_000_000


class Reading(Protocol):
    """Reads one chain."""

    async def read(self, questions: Sequence[Question]) -> list[Answer]:
        """An answer for each question; RailUnavailable if there is none."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed's lower-case address, and where its price is kept."""

    address: str
    kept: Kept


class OraclePrices:
    """The feeds on one chain, all read at once."""

    def __init__(self, reader: Reading, feeds: Sequence[Feed]) -> None:
        self._reader = reader
        self._feeds = feeds

    async def refresh(self, now_us: int) -> None:
        """Reads every feed; each price is taken, or told why not."""
        places = [bytes.fromhex(feed.address[2:]) for feed in self._feeds]
        try:
            answers = await self._reader.read(
                [
                    question
                    for place in places
                    for question in (
                        Question(place, _LATEST_ROUND, most=_ROUND_BYTES),
                        Question(place, DECIMALS),
                    )
                ]
            )
        except RailUnavailable as fault:
            for feed in self._feeds:
                feed.kept.miss(str(fault))
            return
        for feed, told, decimals in zip(self._feeds, answers[::2], answers[1::2], strict=True):
            try:
                feed.kept.take(*_read(told, decimals), now_us)
            except PriceFault as fault:
                feed.kept.miss(str(fault))

    async def close(self) -> None:
        """Nothing to end: the chain's connections are not ours."""


def _read(told: Answer, decimals: Answer) -> tuple[str, int]:
    """A feed's price and its time, in microseconds."""
    round_id, answer, _, updated_at, answered_in = _words(told, 5)
    (scale,) = _words(decimals, 1)
    if not round_id or answered_in < round_id or not updated_at:
        raise PriceFault("the feed's round is not complete")
    if not 0 < answer < _SIGN:
        raise PriceFault("the feed tells no price above zero")
    if scale > _DECIMALS_MAX:
        raise PriceFault(f"the feed has {scale} decimals")
    digits = str(answer).rjust(scale + 1, "0")
    price = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    try:
        parse_decimal(price)
    except ValueError:
        raise PriceFault("the feed's price is out of range") from None
    return price, updated_at * _SECOND_US


def _words(answer: Answer, count: int) -> list[int]:
    if answer is None or not answer[0]:
        raise PriceFault("the feed does not answer")
    if len(answer[1]) != count * abi.WORD:
        raise PriceFault("there is no feed at its address")
    return [int.from_bytes(word, "big") for word in abi.words(answer[1])]
