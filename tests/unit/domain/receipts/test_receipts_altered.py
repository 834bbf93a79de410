"""Test 10,000 altered receipts: none verifies, and each has one reason for its refusal."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from florin_server.domain.receipts import signature
from florin_server.domain.receipts.verdict import STATEMENT_CHECKS, ReceiptNotGenuine

from tests.support.forged_receipts import ReceiptForger, ReceiptSigner

COUNT, SEED = 10_000, 20_261_123
ISSUER = ReceiptSigner(b"\x11" * 32)


@pytest.mark.long
def test_none_of_ten_thousand_altered_receipts_verifies():
    okp_keys = {signer.id: signer.key for signer in (ISSUER, ReceiptSigner(b"\x22" * 32))}
    forger = ReceiptForger(ISSUER, random.Random(SEED))
    assert signature.verify_receipt(forger.receipt, okp_keys).sub.endswith("1")
    refused: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    for way, text in forger.altered(COUNT):
        with pytest.raises(ReceiptNotGenuine) as caught:
            signature.verify_receipt(text, okp_keys)
        assert caught.value.check in STATEMENT_CHECKS, (way, text)
        refused[caught.value.check] += 1
        ways[way] += 1
    assert sum(ways.values()) == COUNT
    assert ways.keys() == {way.__name__ for way in forger.ways}
    # not all of them fail at the first check
    assert min(refused["form"], refused["signature"]) > 1000, refused
    assert refused["key"] > 10, refused
