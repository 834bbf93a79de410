"""Test exports from a server for a merchant: page by page, and under rate limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from florin.v1 import listing_pb2, merchant_pb2_grpc, money_pb2, payment_pb2
from florin_client import Retries
from florin_server.api.server.errors import to_grpc_status
from florin_server.app.exports import server
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.features.exports.service import frames
from grpc_status import rpc_status

from tests.support.exported import get_refusal

ENV = {server.PARTNER_KEY_VARIABLE: "fl_test_pk_1", server.MERCHANT_ID_VARIABLE: "mrch_1"}
HUGE = 2**256 - 1
SOON = Retries(first_s=0.01)


class Merchants(merchant_pb2_grpc.MerchantServiceServicer):
    """Three payments, one per page; errors in `refusals` come first."""

    def __init__(self, *refusals):
        self.refusals = list(refusals)
        self.requests = []

    def ListMerchantPayments(self, request, context):
        self.requests.append((dict(context.invocation_metadata())["merchant-id"], request.cursor))
        if self.refusals:
            context.abort_with_status(rpc_status.to_status(to_grpc_status(self.refusals.pop(0))))
        number = int(request.cursor or 0)
        amount = money_pb2.Amount(unit="iso4217/USD", value=str(HUGE), display={"decimals": 2})
        row = listing_pb2.PaymentRow(
            payment_id=f"pay_{number}",
            merchant_id="mrch_1",
            status=payment_pb2.PAYMENT_STATUS_EXPIRED,
            fiat_amount=amount,
            created_at={"seconds": 1_800_000_000 + number, "nanos": 5_000},
            description="Tea" if number else None,
            metadata={"b": "2", "a": "é"} if number else {},
        )
        more = str(number + 1) if number < 2 else None
        return listing_pb2.ListPaymentsResponse(data=[row], next_cursor=more)


@contextmanager
def serving(merchants):
    own = grpc.server(ThreadPoolExecutor(1))
    merchant_pb2_grpc.add_MerchantServiceServicer_to_server(merchants, own)
    port = own.add_insecure_port("127.0.0.1:0")
    own.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        own.stop(None).wait()


def read_rows(target, retries=SOON, env=ENV):
    with server.open_server_origin(target, UpstreamConnection(), env, retries) as origin:
        return frames.read_origin(origin, "payments").to_pylist()


def test_every_page_is_requested_with_the_api_key_and_merchant():
    merchants = Merchants()
    with serving(merchants) as target:
        rows = read_rows(target)
    assert merchants.requests == [("mrch_1", ""), ("mrch_1", "1"), ("mrch_1", "2")]
    assert [row["payment_id"] for row in rows] == ["pay_0", "pay_1", "pay_2"]
    assert {int(row["requested_minor"]) for row in rows} == {HUGE}
    assert rows[0]["status"] == "expired"
    assert rows[0]["created_at"].microsecond == 5
    assert [(row["description"], row["metadata"]) for row in rows] == [
        (None, None),
        *[("Tea", '{"a":"é","b":"2"}')] * 2,
    ]
    # members that the server does not return stay empty
    assert {rows[0][name] for name in ("payer", "paid_minor", "option_id", "version")} == {None}


def test_briefly_unavailable_server_is_retried():
    down = ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)
    merchants = Merchants(down, down)
    with serving(merchants) as target:
        assert len(read_rows(target)) == 3
    assert [cursor for _, cursor in merchants.requests] == ["", "", "", "1", "2"]


def test_unavailable_server_or_rate_limit_is_reported():
    limited = ApiError(ErrorCode.RATE_LIMITED, retry_after_s=7)
    down = ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)
    at_once = Retries(patience_s=0)
    with serving(Merchants(limited)) as target:
        assert "limits the rate of this key" in get_refusal(lambda: read_rows(target, at_once))
    with serving(Merchants(down)) as target:
        assert "does not answer by gRPC: Internal error" in get_refusal(
            lambda: read_rows(target, at_once)
        )


def test_non_ascii_api_key_is_refused_at_once():
    env = {**ENV, server.PARTNER_KEY_VARIABLE: "schl\u00fcssel"}
    assert "must be printable ASCII" in get_refusal(lambda: read_rows("127.0.0.1:1", env=env))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(ErrorCode.INTERNAL_ERROR, "refused: "), (ErrorCode.UNAUTHORIZED, "refuses the key: ")],
)
def test_server_refusal_is_reported_with_its_reason(code, sentence):
    with serving(Merchants(ApiError(code))) as target:
        assert sentence in get_refusal(lambda: read_rows(target))
