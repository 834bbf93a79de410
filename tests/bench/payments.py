"""Whole payments on the embedded chain, against the chain's own pace with the same settlements.

Both sides seal a block for each transaction and need one confirmation. The service verifies,
records and settles; the chain alone is given ready, signed transactions of one payment each.
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
from tests.support.wallet import Wallet, typed_data_of

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
    chain_rate = median(one.rate for one in bare)
    ratios = [s / b.rate for s, b in zip(settled, bare, strict=True)]
    note = (
        f"{COUNT} payments confirmed over {CONCURRENCY} connections until all have succeeded, a "
        f"block for each transaction; the chain is in the same process; with `florin up` as it "
        f"comes (blocks of 0.5 s, 2 confirmations) {usual:,.0f}/s"
    )
    against = (
        f"the chain alone mines {chain_rate:,.0f} settlements/s, one in each transaction, "
        f"{median(one.cpu_ms for one in bare):.1f} ms CPU each"
    )
    return [
        median_of("payments_per_s", settled, "/s", note, cpu_us=median(cpu_ms) * 1e3),
        # no target: it shrinks when the chain, a part of the same process, gets faster
        median_of("payments_vs_chain", ratios, "×", against, peer="chain alone"),
    ]


def _buyers(running: Florin) -> list[Wallet]:
    wallets = [Wallet(running.env["FLORIN_EVM_CHAIN"]) for _ in range(COUNT)]
    fund(running, wallets)
    return wallets


def prepare(
    running: Florin, pool: ProcessPoolExecutor, wallets: list[Wallet]
) -> list[tuple[str, bytes]]:
    """Payments with the confirm that each needs; every one has a buyer of its own."""
    payments = new_payments(running, pool, len(wallets))
    buyers = dict(zip(payments, wallets, strict=True))
    asked = tuple(options_request(running, p, [buyers[p].account]) for p in payments)
    job = RestJob(running.http, asked, connections=16, expect=b'"actions"', keep=True)
    prepared = []
    for body in load.run(pool, job).bodies:
        answer = orjson.loads(body)
        payment, (option,) = answer["paymentId"], answer["options"]
        signature = buyers[payment].sign(typed_data_of(option["actions"][0]))
        content = {
            "optionId": option["id"],
            "results": [{"type": "walletRpc", "data": [signature]}],
        }
        path = f"/v1/gateway/payment/{payment}/confirm"
        prepared.append((payment, http1.request("POST", path, running.wallet, content)))
    return prepared


def settle(running: Florin, pool: ProcessPoolExecutor, prepared: list[tuple[str, bytes]]) -> float:
    """Payments a second, from the first confirm until the last one has succeeded."""
    confirms = tuple(confirm for _, confirm in prepared)
    waits = tuple(
        http1.request("GET", f"/v1/gateway/payment/{payment}/status{_POLL}", running.wallet)
        for payment, _ in prepared
    )
    # sent in this order, over few enough connections: whoever waits finds every payment confirmed
    connections = min(CONCURRENCY, max(1, len(prepared) // 4))
    job = RestJob(running.http, confirms + waits, connections, expect=b'"status"', keep=True)
    result = load.run(pool, job)
    succeeded = sum(b'"succeeded"' in body for body in result.bodies)
    count = len(prepared)
    if succeeded < count:
        raise RuntimeError(f"{count - succeeded} of {count} payments have not succeeded")
    return count / result.seconds
