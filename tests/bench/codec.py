"""Compare the gateway's JSON codec with json_format and orjson, on messages of real answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Any

import grpc
import orjson
from florin.v1 import gateway_pb2, gateway_pb2_grpc, payment_pb2
from google.protobuf import json_format
from google.protobuf.message import Message
from grpc_rest_gateway import jsonscan
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile

from tests.bench.florin import Florin
from tests.bench.load import PATIENCE_S
from tests.bench.report import Figure
from tests.bench.setup import accounts, new_payments
from tests.bench.size import sized
from tests.support.api import grpc_metadata

ROUNDS, ROUND_S = sized((9, 0.02), (1, 0.001))
ACCOUNTS = 6

Pair = tuple[Callable[[], object], Callable[[], object]]


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    ratios, notes = [], []
    for name, (ours, theirs) in _cases(florin, pool):
        mine_us, other_us = _medians(ours, theirs)
        ratios.append(other_us / mine_us)
        notes.append(f"{name} {mine_us:.1f} / {other_us:.1f} µs = {ratios[-1]:.1f}")
    note = f"the smallest of: {'; '.join(notes)} (ours / json_format + orjson)"
    return [Figure("codec_vs_json_format", min(ratios), "×", note, at_least=4, peer="json_format")]


def _cases(florin: Florin, pool: ProcessPoolExecutor) -> Iterator[tuple[str, Pair]]:
    (payment,) = new_payments(florin, pool, 1)
    status, options = _answers(florin, payment)
    codec = JsonCodec()
    for name, answer in (("status encode", status), (f"{ACCOUNTS} options encode", options)):
        yield name, _encode(codec, answer)
    request = gateway_pb2.ConfirmPaymentRequest(
        payment_id=payment,
        option_id=options.options[0].id,
        results=[
            gateway_pb2.ActionResult(
                type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC,
                output_json=['"0x' + "5a" * 65 + '"'],
            )
        ],
    )
    yield "confirm decode", _decode(codec, request)


def _answers(florin: Florin, payment: str) -> tuple[Message, Any]:
    headers = grpc_metadata(florin.wallet)
    options_request = gateway_pb2.GetPaymentOptionsRequest(
        payment_id=payment, accounts=accounts(florin, ACCOUNTS)
    )
    with grpc.insecure_channel("{}:{}".format(*florin.grpc)) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        status = stub.GetPaymentStatus(
            payment_pb2.GetPaymentStatusRequest(payment_id=payment),
            metadata=headers,
            timeout=PATIENCE_S,
        )
        return status, stub.GetPaymentOptions(options_request, metadata=headers, timeout=PATIENCE_S)


def _encode(codec: JsonCodec, answer: Message) -> Pair:
    encode = codec.get_encoder(answer.DESCRIPTOR, JsonProfile.SPEC)
    # both also write members without a value, as the dialect requires
    to_dict = partial(json_format.MessageToDict, always_print_fields_with_no_presence=True)
    return (lambda: encode(answer)), (lambda: orjson.dumps(to_dict(answer)))


def _decode(codec: JsonCodec, request: gateway_pb2.ConfirmPaymentRequest) -> Pair:
    """Decode a body in each side's own form; ours includes the gateway's scan for invalid JSON."""
    fields = frozenset({"payment_id"})
    decode = codec.get_decoder(request.DESCRIPTOR, JsonProfile.SPEC, fields)
    output = orjson.loads(request.results[0].output_json[0])
    body = orjson.dumps(
        {
            "optionId": request.option_id,
            "results": [{"type": "walletRpc", "data": [output]}],
        }
    )
    canonical = orjson.dumps(json_format.MessageToDict(request))
    created = type(request)

    def ours() -> object:
        message = created()
        faults = decode(jsonscan.parse_json(body), message)
        if faults:
            raise RuntimeError(f"the codec refused its own body: {faults}")
        return message

    return ours, (lambda: json_format.ParseDict(orjson.loads(canonical), created()))


def _medians(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Return microseconds per call, measured in turn."""
    mine, other = [], []
    for _ in range(ROUNDS):
        mine.append(_call_us(ours))
        other.append(_call_us(theirs))
    return median(mine), median(other)


def _call_us(call: Callable[[], object]) -> float:
    count, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < ROUND_S:
        for _ in range(50):
            call()
        count += 50
    return passed / count * 1e6
