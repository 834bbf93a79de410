"""Compare whole payments on the embedded chain with the chain's own pace of equal settlements.

Both sides seal a block per transaction and need one confirmation. The service verifies, records and
settles. The chain alone gets signed transactions of one payment each.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from statistics import median

import orjson

from tests.bench import http1, load
from tests.bench.chain import push
from tests.bench.florin import Florin, florin
from tests.bench.load import RestJob
from tests.bench.report import Figure, median_of
from tests.bench.setup import fund, new_payments, options_request
from tests.bench.size import sized
from tests.support.wallet import EvmTestWallet, get_typed_data

ROUNDS, COUNT = sized((2, 300), (1, 3))
CONCURRENCY = 64
SEAL_AT_ONCE = {"FLORIN_EMBEDDED__BLOCK_INTERVAL_S": "0", "FLORIN_EMBEDDED__CONFIRMATIONS": "1"}
_POLL = "?maxPollMs=25000"


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    settled, bare, cpu_ms = [], [], []
    with florin(**SEAL_AT_ONCE) as running:
        for _ in range(ROUNDS):
            prepared = prepare(running, pool, _buyers(running))
            before = running.cpu_s()
            settled.append(settle(running, pool, prepared))
            cpu_ms.append(running.used_s(before) / COUNT * 1e3)
            bare.append(pool.submit(push, COUNT).result(2 * load.PATIENCE_S))
    with florin() as running:
        usual = settle(running, pool, prepare(running, pool, _buyers(running)))
    chain_rate = median(item.rate for item in bare)
    ratios = [s / b.rate for s, b in zip(settled, bare, strict=True)]
    note = (
        f"{COUNT} payments confirmed over {CONCURRENCY} connections until all have succeeded, a "
        f"block for each transaction; the chain is in the same process; with `florin up` as it "
        f"comes (blocks of 0.5 s, 2 confirmations) {usual:,.0f}/s"
    )
    against = (
        f"the chain alone mines {chain_rate:,.0f} settlements/s, one in each transaction, "
        f"{median(item.cpu_ms for item in bare):.1f} ms CPU each"
    )
    return [
        median_of("payments_per_s", settled, "/s", note, cpu_us=median(cpu_ms) * 1e3),
        # without a target: the ratio falls when the chain, part of the same process, gets faster
        median_of("payments_vs_chain", ratios, "×", against, peer="chain alone"),
    ]


def _buyers(running: Florin) -> list[EvmTestWallet]:
    wallets = [EvmTestWallet(running.env["FLORIN_EVM_CHAIN"]) for _ in range(COUNT)]
    fund(running, wallets)
    return wallets


def prepare(
    running: Florin, pool: ProcessPoolExecutor, wallets: list[EvmTestWallet]
) -> list[tuple[str, bytes]]:
    """Create payments with their confirms; each has its own buyer."""
    payments = new_payments(running, pool, len(wallets))
    buyers = dict(zip(payments, wallets, strict=True))
    request = tuple(options_request(running, p, [buyers[p].account]) for p in payments)
    job = RestJob(running.http, request, connections=16, expect=b'"actions"', keep=True)
    prepared = []
    for body in load.run(pool, job).bodies:
        answer = orjson.loads(body)
        payment, (option,) = answer["paymentId"], answer["options"]
        signature = buyers[payment].sign(get_typed_data(option["actions"][0]))
        content = {
            "optionId": option["id"],
            "results": [{"type": "walletRpc", "data": [signature]}],
        }
        path = f"/v1/gateway/payment/{payment}/confirm"
        prepared.append((payment, http1.request("POST", path, running.wallet, content)))
    return prepared


def settle(running: Florin, pool: ProcessPoolExecutor, prepared: list[tuple[str, bytes]]) -> float:
    """Return payments a second, from the first confirm until the last success."""
    confirms = tuple(confirm for _, confirm in prepared)
    waits = tuple(
        http1.request("GET", f"/v1/gateway/payment/{payment}/status{_POLL}", running.wallet)
        for payment, _ in prepared
    )
    # sent in this order, over few connections, so that all payments are confirmed when polled
    connections = min(CONCURRENCY, max(1, len(prepared) // 4))
    job = RestJob(running.http, confirms + waits, connections, expect=b'"status"', keep=True)
    result = load.run(pool, job)
    succeeded = sum(b'"succeeded"' in body for body in result.bodies)
    count = len(prepared)
    if succeeded < count:
        raise RuntimeError(f"{count - succeeded} of {count} payments have not succeeded")
    return count / result.seconds
