"""Ten thousand altered receipts: none verifies, and each is refused in one way."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from florin_server.domain.receipts import signature
from florin_server.domain.receipts.verdict import GENUINE, NotGenuine

from tests.support.altered import Forger, Signer

COUNT, SEED = 10_000, 20_261_123
ISSUER = Signer(b"\x11" * 32)


def test_none_of_ten_thousand_altered_receipts_verifies():
    known = {one.id: one.key for one in (ISSUER, Signer(b"\x22" * 32))}
    forger = Forger(ISSUER, random.Random(SEED))
    assert signature.verified(forger.one, known).sub.endswith("1")
    refused: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    for way, text in forger.altered(COUNT):
        with pytest.raises(NotGenuine) as caught:
            signature.verified(text, known)
        assert caught.value.check in GENUINE, (way, text)
        refused[caught.value.check] += 1
        ways[way] += 1
    assert sum(ways.values()) == COUNT
    assert ways.keys() == {way.__name__ for way in forger.ways}
    # not all of them end at the door
    assert min(refused["form"], refused["signature"]) > 1000, refused
    assert refused["key"] > 10, refused
