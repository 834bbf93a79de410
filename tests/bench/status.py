"""Compare the embedded REST gateway with direct gRPC, on the same running server.

Requests per second of the server's processor time are compared, because the load generator uses the
same few cores. Wall-clock rates are in the notes.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

from florin.v1 import gateway_pb2, payment_pb2

from tests.bench import http1, load
from tests.bench.florin import Florin
from tests.bench.load import GrpcJob, RestJob
from tests.bench.report import Figure, median_of
from tests.bench.setup import accounts, new_payments, options_request
from tests.bench.size import sized
from tests.support.api import grpc_metadata

ROUNDS, SECONDS, IDLE_S = sized((3, 2.0, 1.0), (1, 0.1, 0.1))
ACCOUNTS = 6
_SERVICE = "/florin.v1.GatewayService/"


@dataclass(frozen=True, slots=True)
class Round:
    """The server's figures in one run of a job."""

    rate: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    client: float  # cores used by the client


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    (payment,) = new_payments(florin, pool, 1)
    payers = accounts(florin, ACCOUNTS)
    options = options_request(florin, payment, payers)
    (answer,) = load.run(pool, RestJob(florin.http, (options,), keep=True)).bodies
    if answer.count(b'"actions"') != ACCOUNTS:
        raise RuntimeError(f"not {ACCOUNTS} options: {answer!r}")
    status = http1.request("GET", f"/v1/gateway/payment/{payment}/status", florin.wallet)
    asked_status = payment_pb2.GetPaymentStatusRequest(payment_id=payment)
    asked_options = gateway_pb2.GetPaymentOptionsRequest(payment_id=payment, accounts=payers)
    jobs: dict[str, RestJob | GrpcJob] = {
        "status rest": RestJob(florin.http, (status,), seconds=SECONDS, expect=b"status"),
        "status grpc": _grpc(florin, "GetPaymentStatus", asked_status.SerializeToString()),
        "options rest": RestJob(florin.http, (options,), seconds=SECONDS, expect=b"options"),
        "options grpc": _grpc(florin, "GetPaymentOptions", asked_options.SerializeToString()),
    }
    idle = florin.idle(IDLE_S)
    rounds: dict[str, list[Round]] = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            rounds[name].append(_round(florin, pool, job))
    note = f"; idle server {idle:.1%} of a core; 64 in flight"
    return [
        *_figures("status", rounds["status rest"], rounds["status grpc"], 2.0, note),
        *_figures("options", rounds["options rest"], rounds["options grpc"], 1.0, note),
    ]


def _grpc(florin: Florin, method: str, request: bytes) -> GrpcJob:
    return GrpcJob(florin.grpc, _SERVICE + method, grpc_metadata(florin.wallet), request, SECONDS)


def _round(florin: Florin, pool: ProcessPoolExecutor, job: RestJob | GrpcJob) -> Round:
    before = florin.cpu_s()
    result = load.run(pool, job)
    return Round(
        rate=result.rate,
        cpu_us=florin.used_s(before) / result.answered * 1e6,
        p50_ms=result.quantile_ms(50),
        p99_ms=result.quantile_ms(99),
        client=result.cpu_s / result.seconds,
    )


def _figures(
    what: str, rest: list[Round], grpc: list[Round], target: float, note: str
) -> list[Figure]:
    ratios = [g.cpu_us / r.cpu_us for r, g in zip(rest, grpc, strict=True)]
    wall = median(r.rate / g.rate for r, g in zip(rest, grpc, strict=True))
    output = f"by the server's CPU; by wall clock {wall:.2f}" + note
    peer = "direct gRPC"
    return [
        *(
            _paces(f"{side}_{what}_per_s", rounds)
            for side, rounds in (("rest", rest), ("grpc", grpc))
        ),
        median_of(f"rest_{what}_vs_grpc", ratios, "×", output, at_least=target, peer=peer),
    ]


def _paces(name: str, rounds: list[Round]) -> Figure:
    p50, p99 = median(r.p50_ms for r in rounds), median(r.p99_ms for r in rounds)
    client, cpu_us = median(r.client for r in rounds), median(r.cpu_us for r in rounds)
    note = f"p50 {p50:.1f} p99 {p99:.1f} ms, client {client:.2f} core"
    return median_of(name, [r.rate for r in rounds], "/s", note, cpu_us=cpu_us)
