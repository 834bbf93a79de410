"""What a server tells a merchant, page by page, also when the server wants it to be asked less."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from florin.v1 import listing_pb2, merchant_pb2_grpc, money_pb2, payment_pb2
from florin_client import Retries
from florin_server.boot.exports import server
from florin_server.boot.servers.upstream import Link
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.exports import frames
from florin_server.rpc.server.errors import status_of
from grpc_status import rpc_status

from tests.support.exported import refused

ENV = {server.KEY: "fl_test_pk_1", server.MERCHANT: "mrch_1"}
HUGE = 2**256 - 1
SOON = Retries(first_s=0.01)


class Merchants(merchant_pb2_grpc.MerchantServiceServicer):
    """Three payments, one a page; whatever is in `refusals` comes first."""

    def __init__(self, *refusals):
        self.refusals = list(refusals)
        self.asked = []

    def ListMerchantPayments(self, request, context):
        self.asked.append((dict(context.invocation_metadata())["merchant-id"], request.cursor))
        if self.refusals:
            context.abort_with_status(rpc_status.to_status(status_of(self.refusals.pop(0))))
        number = int(request.cursor or 0)
        asked = money_pb2.Amount(unit="iso4217/USD", value=str(HUGE), display={"decimals": 2})
        row = listing_pb2.PaymentRow(
            payment_id=f"pay_{number}",
            merchant_id="mrch_1",
            status=payment_pb2.PAYMENT_STATUS_EXPIRED,
            fiat_amount=asked,
            created_at={"seconds": 1_800_000_000 + number, "nanos": 5_000},
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


def told(target, retries=SOON, env=ENV):
    with server.of_server(target, Link(), env, retries) as origin:
        return frames.of_origin(origin, "payments").to_pylist()


def test_every_page_is_asked_for_with_the_merchants_key():
    merchants = Merchants()
    with serving(merchants) as target:
        rows = told(target)
    assert merchants.asked == [("mrch_1", ""), ("mrch_1", "1"), ("mrch_1", "2")]
    assert [row["payment_id"] for row in rows] == ["pay_0", "pay_1", "pay_2"]
    assert {int(row["requested_minor"]) for row in rows} == {HUGE}
    assert rows[0]["status"] == "expired"
    assert rows[0]["created_at"].microsecond == 5
    # what a server does not tell is not made up
    assert {rows[0][name] for name in ("payer", "paid_minor", "option_id", "version")} == {None}


def test_a_server_that_is_down_for_a_moment_is_asked_again():
    down = FlorinError(Code.INTERNAL_ERROR, unavailable=True)
    merchants = Merchants(down, down)
    with serving(merchants) as target:
        assert len(told(target)) == 3
    assert [cursor for _, cursor in merchants.asked] == ["", "", "", "1", "2"]


def test_a_server_that_stays_down_or_lets_nobody_ask_is_told():
    limited = FlorinError(Code.RATE_LIMITED, retry_after_s=7)
    down = FlorinError(Code.INTERNAL_ERROR, unavailable=True)
    at_once = Retries(patience_s=0)
    with serving(Merchants(limited)) as target:
        assert "lets this key ask too seldom" in refused(lambda: told(target, at_once))
    with serving(Merchants(down)) as target:
        assert "does not answer by gRPC: Internal error" in refused(lambda: told(target, at_once))


def test_a_key_that_no_server_would_take_is_told_at_once():
    env = {**ENV, server.KEY: "schl\u00fcssel"}
    assert "not printable ASCII" in refused(lambda: told("127.0.0.1:1", env=env))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(Code.INTERNAL_ERROR, "refused: "), (Code.UNAUTHORIZED, "refuses the key: ")],
)
def test_another_refusal_is_told_as_it_is(code, sentence):
    with serving(Merchants(FlorinError(code))) as target:
        assert sentence in refused(lambda: told(target))
