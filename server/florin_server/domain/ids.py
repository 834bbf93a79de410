"""Identifiers that Florin gives out, in base 62 so that they pass anywhere unescaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

# in ASCII order, so that texts of one length sort like their numbers
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# two digits at a time: most ids are made for requests, each of which has one
_PAIRS = tuple(first + second for first in _DIGITS for second in _DIGITS)
_PAYMENT_ID = re.compile(r"pay_[A-Za-z0-9_-]{1,60}")
_TIME_CHARS = 9
_PAYMENT_RANDOM_CHARS = 18  # 107 bits: payment ids cannot be guessed
_SHORT_RANDOM_CHARS = 17
# ids of requests have the same length: 65 bits for each start of a process, and then 56,800,235,584
# of them
_PROCESS_CHARS, _REQUEST_CHARS = 11, 6
_REQUESTS = 62**_REQUEST_CHARS
# this many bytes beyond need keep the bias of the remainder below 2^-128
_SPARE_BYTES = 16


def encode_base62(number: int, width: int) -> str:
    """Write a number in exactly `width` base-62 digits. ValueError if it does not fit."""
    if not 0 <= number < 62**width:
        raise ValueError(f"{number} does not fit {width} base-62 digits")
    pairs = []
    for _ in range((width + 1) // 2):
        number, pair = divmod(number, 62 * 62)
        pairs.append(_PAIRS[pair])
    # an odd width has one leading zero too many
    return "".join(reversed(pairs))[-width:]


def generate_base62(width: int, randbytes: Callable[[int], bytes]) -> str:
    """Draw `width` base-62 digits, each text as likely as any other."""
    surplus = int.from_bytes(randbytes(width + _SPARE_BYTES))
    return encode_base62(surplus % 62**width, width)


def generate_payment_id(now_us: int, randbytes: Callable[[int], bytes]) -> str:
    """Create a payment id; ids sort by the millisecond they were made in."""
    base62 = encode_base62(now_us // 1000, _TIME_CHARS)
    return f"pay_{base62}{generate_base62(_PAYMENT_RANDOM_CHARS, randbytes)}"


def get_payment_id_floor(ms: int) -> str:
    """Return a text between the payment ids made before a millisecond and those made from it on."""
    return f"pay_{encode_base62(max(ms, 0), _TIME_CHARS)}"


def find_payment_id_ms(text: str) -> int | None:
    """Return the millisecond in the first characters of a payment id; None if they hold none."""
    digits = text.removeprefix("pay_")[:_TIME_CHARS]
    if not text.startswith("pay_") or len(digits) != _TIME_CHARS:
        return None
    ms = 0
    for digit in digits:
        value = _DIGITS.find(digit)
        if value < 0:
            return None
        ms = ms * 62 + value
    return ms


def generate_short_id(prefix: str, randbytes: Callable[[int], bytes]) -> str:
    """Create the id of anything else; `prefix` ends in an underscore, e.g. `mrch_`."""
    return prefix + generate_base62(_SHORT_RANDOM_CHARS, randbytes)


class RequestIdGenerator:
    """Ids of the requests of one process: a random start, then a count, as every call needs one.

    They distinguish requests, and prove nothing.
    """

    def __init__(self, randbytes: Callable[[int], bytes]) -> None:
        self._drawn = generate_base62(_PROCESS_CHARS, randbytes)
        self._count = count()

    def make(self) -> str:
        """Return the next one."""
        number = next(self._count) % _REQUESTS
        return f"req_{self._drawn}{encode_base62(number, _REQUEST_CHARS)}"


def is_payment_id_shape(text: str) -> bool:
    """Return whether a text can be a payment id; wider than what `generate_payment_id` makes."""
    return _PAYMENT_ID.fullmatch(text) is not None
