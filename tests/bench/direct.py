"""Compare direct gRPC with an empty handler of the same shape, in separate processes.

The processor time per call is compared, in turns. The server's use without calls is deducted: the
service also seals the blocks of its embedded chains.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from statistics import median

import grpc
from florin.v1 import gateway_pb2_grpc, payment_pb2

from tests.bench import load
from tests.bench.florin import Florin, cpu_s
from tests.bench.load import Address, GrpcJob
from tests.bench.report import Figure, median_of
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.support.api import grpc_metadata

ROUNDS, SECONDS, IDLE_S = sized((11, 2.0, 4.0), (1, 0.1, 0.1))
# connections, and concurrent calls on each: full load, and one call after another. A busy server
# reads and writes for several calls at once, the more so the less each call takes
_AT_ONCE = {"grpc_status_vs_empty": (8, 8), "grpc_status_vs_empty_one_by_one": (1, 1)}
_PATH = "/florin.v1.GatewayService/GetPaymentStatus"


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    (payment,) = new_payments(florin, pool, 1)
    status_request = payment_pb2.GetPaymentStatusRequest(payment_id=payment)
    sent = grpc_metadata(florin.wallet)
    with grpc.insecure_channel("{}:{}".format(*florin.grpc)) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        status_response, call = stub.GetPaymentStatus.with_call(status_request, metadata=sent)
        answer, trailing = status_response.SerializeToString(), call.trailing_metadata()

    idle = florin.idle(IDLE_S)

    def us_a_call(
        address: Address, used_s: Callable[[], float], idle: float, at_once: tuple[int, int]
    ) -> float:
        job = GrpcJob(address, _PATH, sent, status_request.SerializeToString(), SECONDS, *at_once)
        before, started = used_s(), time.monotonic()
        answered = load.run(pool, job).answered
        unasked = idle * (time.monotonic() - started)
        return (used_s() - before - unasked) / answered * 1e6

    figures = []
    with _empty(answer, trailing) as (address, pid):
        for name, at_once in _AT_ONCE.items():
            rounds: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                ours = us_a_call(florin.grpc, florin.cpu_s, idle, at_once)
                rounds.append((ours, us_a_call(address, lambda: cpu_s(pid), 0, at_once)))
            ours, theirs = (median(item[i] for item in rounds) for i in range(2))
            # a short run can be shorter than a tick of the kernel's clock
            ratios = [a / b if b else 1.0 for a, b in rounds]
            calls = f"{at_once[0] * at_once[1]} in flight"
            note = f"by CPU, the handler {theirs:.0f} µs; {calls}; idle {idle:.1%} of a core"
            status_response = {"at_most": 1.3, "cpu_us": ours, "peer": "empty handler"}
            figures.append(median_of(name, ratios, "×", note, **status_response))
    return figures


@contextmanager
def _empty(answer: bytes, trailing: Iterable[tuple[str, str]]) -> Iterator[tuple[Address, int]]:
    entries = json.dumps([(item.key, item.value) for item in trailing])
    command = [sys.executable, "-m", "tests.bench.empty_server", answer.hex(), entries]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ("127.0.0.1", int(process.stdout.readline())), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
