"""Identifiers that Florin gives out, in base 62 so that they pass anywhere unescaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

# in ASCII order, so that texts of one length sort as their numbers do
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# two digits at a time: most ids are made for requests, each of which has one
_PAIRS = tuple(first + second for first in _DIGITS for second in _DIGITS)
_PAYMENT_ID = re.compile(r"pay_[A-Za-z0-9_-]{1,60}")
_TIME_CHARS = 9
_PAYMENT_RANDOM_CHARS = 18  # 107 bits: nobody guesses a payment
_SHORT_RANDOM_CHARS = 17
# ids of requests are as long: 65 bits for each start of a process, and then 56,800,235,584 of them
_PROCESS_CHARS, _REQUEST_CHARS = 11, 6
_REQUESTS = 62**_REQUEST_CHARS
# this many bytes beyond need keep the bias of the remainder below 2^-128
_SPARE_BYTES = 16


def base62(number: int, width: int) -> str:
    """Writes a number in exactly `width` base-62 digits. ValueError if it does not fit."""
    if not 0 <= number < 62**width:
        raise ValueError(f"{number} does not fit {width} base-62 digits")
    pairs = []
    for _ in range((width + 1) // 2):
        number, pair = divmod(number, 62 * 62)
        pairs.append(_PAIRS[pair])
    # of an odd width the first digit is a zero too many
    return "".join(reversed(pairs))[-width:]


def random_base62(width: int, randbytes: Callable[[int], bytes]) -> str:
    """Draws `width` base-62 digits, each text as likely as any other."""
    surplus = int.from_bytes(randbytes(width + _SPARE_BYTES))
    return base62(surplus % 62**width, width)


def payment_id(now_us: int, randbytes: Callable[[int], bytes]) -> str:
    """Makes a payment id; ids sort by the millisecond they were made in."""
    made = base62(now_us // 1000, _TIME_CHARS)
    return f"pay_{made}{random_base62(_PAYMENT_RANDOM_CHARS, randbytes)}"


def made_from(ms: int) -> str:
    """A text that payment ids made from a millisecond on are above, and earlier ones below."""
    return f"pay_{base62(max(ms, 0), _TIME_CHARS)}"


def short_id(prefix: str, randbytes: Callable[[int], bytes]) -> str:
    """Makes the id of anything else; `prefix` ends in an underscore, e.g. `mrch_`."""
    return prefix + random_base62(_SHORT_RANDOM_CHARS, randbytes)


class RequestIds:
    """Ids of the requests of one process: drawn once, then counted, as every call has one.

    They tell requests apart, and prove nothing.
    """

    def __init__(self, randbytes: Callable[[int], bytes]) -> None:
        self._drawn = random_base62(_PROCESS_CHARS, randbytes)
        self._count = count()

    def make(self) -> str:
        """The next one."""
        number = next(self._count) % _REQUESTS
        return f"req_{self._drawn}{base62(number, _REQUEST_CHARS)}"


def is_payment_id_shape(text: str) -> bool:
    """Tells whether a text may be a payment id; wider than what `payment_id` makes."""
    return _PAYMENT_ID.fullmatch(text) is not None
