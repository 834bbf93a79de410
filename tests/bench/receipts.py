"""Signing receipts and verifying their signatures, against Ed25519 alone, in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from florin_server.domain.receipts import signature

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.altered import Signer, statement

ROUNDS, ROUND_S = sized((9, 0.2), (1, 0.001))
ISSUER = Signer(b"\x11" * 32)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    said = statement()
    text = ISSUER.receipt(said)
    known = {ISSUER.id: ISSUER.key}
    key = Ed25519PrivateKey.from_private_bytes(ISSUER.seed)
    content = text.rpartition(".")[0].encode()
    proof, public = key.sign(content), key.public_key()
    return [
        _figure(
            "receipts_signed_per_s",
            lambda: signature.sign(said, ISSUER.seed, ISSUER.id),
            lambda: key.sign(content),
        ),
        _figure(
            "receipts_verified_per_s",
            lambda: signature.verified(text, known),
            lambda: public.verify(proof, content),
        ),
    ]


def _figure(name: str, ours: Callable[[], object], bare: Callable[[], object]) -> Figure:
    """Both in turns, so that whatever else the machine does is there for both."""
    pairs = [(_rate(ours), _rate(bare)) for _ in range(ROUNDS)]
    rates = tuple(one for one, _ in pairs)
    note = f"Ed25519 alone: {median(other for _, other in pairs):,.0f}"
    return Figure(name, median(rates), "/s", note, rounds=rates, peer="cryptography")


def _rate(call: Callable[[], object]) -> float:
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < ROUND_S or not count:
        call()
        count += 1
    return count / spent
