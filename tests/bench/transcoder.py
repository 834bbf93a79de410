"""Compare the embedded REST gateway with Envoy's gRPC-JSON transcoder for the same server.

Both answer the same requests on the same paths, in turns. Envoy's processor time is added to the
server's, which gets only gRPC calls from Envoy.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from florin.v1 import gateway_pb2, merchant_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.bench import http1, load
from tests.bench.florin import Florin, cpu_s
from tests.bench.load import Address, RestJob
from tests.bench.report import Figure, median_of
from tests.bench.setup import create_request, new_payments
from tests.bench.size import sized
from tests.deploy import tools

ROUNDS, SECONDS, COUNT = sized((5, 2.0, 1000), (1, 0.2, 20))
CONNECTIONS = 64
_HERE = "127.0.0.1"
_START_S, _LOOK_S = 20, 0.05
_TYPES = "type.googleapis.com/envoy.extensions"
_HTTP = "upstreams.http.v3.HttpProtocolOptions"


@dataclass(frozen=True, slots=True)
class Pace:
    """Requests a second, and the processor time per request of everything that answers it."""

    rate: float
    cpu_us: float


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    (payment,) = new_payments(florin, pool, 1)
    status = http1.request("GET", f"/v1/gateway/payment/{payment}/status", florin.wallet)
    paces: dict[tuple[str, str], list[Pace]] = {}
    with _envoy(florin.grpc) as (front, pid):
        sides: dict[str, tuple[Address, Callable[[], float]]] = {
            "ours": (florin.http, florin.cpu_s),
            "envoy": (front, lambda: florin.cpu_s() + cpu_s(pid)),
        }
        for turn in range(-1, ROUNDS):  # the first round warms up
            for side, (address, used_s) in sides.items():
                creates = tuple(create_request(florin, f"{side}-{turn}-{n}") for n in range(COUNT))
                jobs = {
                    "status": RestJob(address, (status,), CONNECTIONS, SECONDS, b"status"),
                    "create": RestJob(address, creates, CONNECTIONS, expect=b"paymentId"),
                }
                for what, job in jobs.items():
                    paces.setdefault((what, side), []).append(_pace(pool, job, used_s))
    return [_figure(what, *(paces[what, side][1:] for side in sides)) for what in jobs]


def _pace(pool: ProcessPoolExecutor, job: RestJob, used_s: Callable[[], float]) -> Pace:
    before = used_s()
    result = load.run(pool, job)
    # the kernel counts in ticks, and a short run can be shorter than one
    return Pace(result.rate, max(used_s() - before, 0.01) / result.answered * 1e6)


def _figure(what: str, ours: list[Pace], envoy: list[Pace]) -> Figure:
    ratios = [theirs.cpu_us / own.cpu_us for own, theirs in zip(ours, envoy, strict=True)]
    wall = median(own.rate / theirs.rate for own, theirs in zip(ours, envoy, strict=True))
    cpu_us, other_us = (median(pace.cpu_us for pace in side) for side in (ours, envoy))
    note = (
        f"by CPU; the embedded gateway {median(pace.rate for pace in ours):,.0f}/s, Envoy with the "
        f"server {median(pace.rate for pace in envoy):,.0f}/s and {other_us:.0f} µs CPU; by wall "
        f"clock {wall:.2f}; {CONNECTIONS} connections"
    )
    name = f"rest_{what}_vs_envoy"
    return median_of(name, ratios, "×", note, cpu_us=cpu_us, peer="Envoy's transcoder")


@contextmanager
def _envoy(upstream: Address) -> Iterator[tuple[Address, int]]:
    """Start a transcoder; yield its address and its process."""
    program = tools.envoy()
    if isinstance(program, str):
        raise RuntimeError(program)
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as name:
        folder = Path(name)
        with socket.create_server((_HERE, 0)) as server:
            port = int(server.getsockname()[1])
        (folder / "protos").write_bytes(_descriptors().SerializeToString())
        (folder / "envoy.json").write_text(json.dumps(_settings(folder, port, upstream)))
        own = ("--disable-hot-restart", "--concurrency", "2", "--log-level", "warning")
        command = [str(program), "-c", str(folder / "envoy.json"), *own]
        with (folder / "said").open("wb") as text:
            process = subprocess.Popen(command, stdout=text, stderr=text)
        try:
            _listens(process, (_HERE, port), folder / "said")
            yield (_HERE, port), process.pid
        finally:
            process.terminate()
            process.wait(_START_S)


def _listens(process: subprocess.Popen[bytes], address: Address, path: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(address, 1).close()
        except OSError:
            time.sleep(_LOOK_S)
        else:
            return
    raise RuntimeError(f"Envoy does not start: {path.read_text()[-500:]}")


def _descriptors() -> FileDescriptorSet:
    """Return the services and all their imports, as Envoy requires."""
    file_descriptors: dict[str, FileDescriptor] = {}

    def add(file: FileDescriptor) -> None:
        for file_descriptor in file.dependencies:
            add(file_descriptor)
        file_descriptors[file.name] = file

    for module in (gateway_pb2, merchant_pb2):
        add(module.DESCRIPTOR)
    file_descriptor_set = FileDescriptorSet()
    for file in file_descriptors.values():
        file.CopyToProto(file_descriptor_set.file.add())
    return file_descriptor_set


def _settings(folder: Path, port: int, upstream: Address) -> dict[str, Any]:
    transcoder = {
        "@type": f"{_TYPES}.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
        "proto_descriptor": str(folder / "protos"),
        "services": ["florin.v1.GatewayService", "florin.v1.MerchantService"],
    }
    router = {"@type": f"{_TYPES}.filters.http.router.v3.Router"}
    network = "filters.network.http_connection_manager.v3.HttpConnectionManager"
    manager = {
        "@type": f"{_TYPES}.{network}",
        "stat_prefix": "bench",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "florin",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "florin"}}],
                }
            ]
        },
        "http_filters": [
            {"name": "transcoder", "typed_config": transcoder},
            {"name": "router", "typed_config": router},
        ],
    }
    cluster = {
        "name": "florin",
        "type": "STATIC",
        "typed_extension_protocol_options": {
            f"envoy.extensions.{_HTTP}": {
                "@type": f"{_TYPES}.{_HTTP}",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "load_assignment": {
            "cluster_name": "florin",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _place(*upstream)}}]}],
        },
    }
    listener = {
        "name": "rest",
        "address": _place(_HERE, port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _place(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
