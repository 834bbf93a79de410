"""Compare signing and verifying of receipts with Ed25519 alone, in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from florin_server.domain.receipts import signature

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.forged_receipts import ReceiptSigner, make_receipt

ROUNDS, ROUND_S = sized((9, 0.2), (1, 0.001))
ISSUER = ReceiptSigner(b"\x11" * 32)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    receipt = make_receipt()
    text = ISSUER.receipt(receipt)
    okp_keys = {ISSUER.id: ISSUER.key}
    key = Ed25519PrivateKey.from_private_bytes(ISSUER.seed)
    content = text.rpartition(".")[0].encode()
    proof, public = key.sign(content), key.public_key()
    return [
        _figure(
            "receipts_signed_per_s",
            lambda: signature.sign_receipt(receipt, ISSUER.seed, ISSUER.id),
            lambda: key.sign(content),
        ),
        _figure(
            "receipts_verified_per_s",
            lambda: signature.verify_receipt(text, okp_keys),
            lambda: public.verify(proof, content),
        ),
    ]


def _figure(name: str, ours: Callable[[], object], bare: Callable[[], object]) -> Figure:
    """Measure both in turn, so that other load on the machine affects both."""
    pairs = [(_rate(ours), _rate(bare)) for _ in range(ROUNDS)]
    rates = tuple(item for item, _ in pairs)
    note = f"Ed25519 alone: {median(other for _, other in pairs):,.0f}"
    return Figure(name, median(rates), "/s", note, rounds=rates, peer="cryptography")


def _rate(call: Callable[[], object]) -> float:
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < ROUND_S or not count:
        call()
        count += 1
    return count / spent
