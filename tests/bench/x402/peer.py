"""Run the x402 facilitator as a process: payments on standard input, results on standard output.

It runs with the interpreter of its own environment. Each input line is `{"do": "verify" or
"settle", "threads": n, "payloads": […]}`, and is answered by a line `{"seconds", "cpu_s",
"refused"}`.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from x402 import x402FacilitatorSync
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.schemas import PaymentPayload


def _did(facilitator: Any, request: dict[str, Any]) -> dict[str, Any]:
    payloads = [PaymentPayload.model_validate(payload) for payload in request["payloads"]]
    settles = request["do"] == "settle"

    def settle_or_verify(payload: PaymentPayload) -> str:
        """Return the reason of a refusal, or nothing."""
        if settles:
            settled = facilitator.settle(payload, payload.accepted)
            return "" if settled.success else str(settled.error_reason)
        verified = facilitator.verify(payload, payload.accepted)
        return "" if verified.is_valid else str(verified.invalid_reason)

    cpu_s, started = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(request["threads"]) as pool:
        refused = [why for why in pool.map(settle_or_verify, payloads) if why]
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "cpu_s": time.process_time() - cpu_s, "refused": refused[:1]}


def main(url: str, key: str, network: str) -> None:
    """Answer until the input ends."""
    facilitator = x402FacilitatorSync()
    register_exact_evm_facilitator(facilitator, FacilitatorWeb3Signer(key, url), network)
    for line in sys.stdin:
        print(json.dumps(_did(facilitator, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
