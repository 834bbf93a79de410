"""Streams that break off: what the Python client asks for next, and what it tells."""

from __future__ import annotations

from florin.v1 import payment_pb2, refund_pb2
from florin_client.calls import gateway, merchant

REQUIRES_ACTION = payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION
PROCESSING = payment_pb2.PAYMENT_STATUS_PROCESSING
SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED


def state(version, status=REQUIRES_ACTION):
    told = payment_pb2.GetPaymentStatusResponse(status=status, is_final=status == SUCCEEDED)
    return payment_pb2.WatchPaymentResponse(version=version, payment=told)


def ended(watch):
    """A connection ends in good order: was it the last one?"""
    if not watch.final:
        watch.resume()
    return watch.final


def after(watch):
    """What the next connection asks for."""
    request = watch.call().request
    assert request.payment_id == "pay_1"
    return request.after_version if request.HasField("after_version") else None


def test_it_goes_on_after_the_last_version():
    watch = merchant.watch_payment("pay_1")
    assert after(watch) is None
    assert watch.take(state(0))
    assert watch.take(state(1, PROCESSING))
    assert not ended(watch)
    assert after(watch) == 1
    # a server that begins with the state now says nothing new
    assert not watch.take(state(1, PROCESSING))
    assert watch.take(state(2, SUCCEEDED))
    assert ended(watch)


def test_a_server_that_is_stopped_twice_in_silence_ends_nothing():
    watch = gateway.watch_payment("pay_1")
    assert watch.take(state(0))
    for _ in range(2):
        assert not ended(watch)
        assert after(watch) == 0


def test_who_knows_the_final_state_is_told_nothing():
    watch = merchant.watch_payment("pay_1", after_version=2)
    assert after(watch) == 2
    # the connection ends in good order: over, or only stopped?
    assert not ended(watch)
    assert after(watch) is None
    assert not watch.take(state(2, SUCCEEDED))
    assert ended(watch)


def test_who_knows_more_than_nothing_is_told_the_rest_only():
    watch = merchant.watch_payment("pay_1", after_version=1)
    assert not ended(watch)
    assert not watch.take(state(1, PROCESSING))
    assert not ended(watch)
    assert after(watch) == 1
    assert watch.take(state(2, SUCCEEDED))
    assert ended(watch)


def test_the_state_of_a_refund_is_told_once():
    def refund(status):
        return refund_pb2.WatchRefundResponse(refund=refund_pb2.Refund(status=status))

    watch = merchant.watch_refund("pay_1")
    assert not ended(watch)
    assert watch.take(refund(refund_pb2.REFUND_STATUS_PENDING))
    assert not ended(watch)
    assert not watch.take(refund(refund_pb2.REFUND_STATUS_PENDING))
    assert watch.take(refund(refund_pb2.REFUND_STATUS_PROCESSING))
    assert watch.take(refund(refund_pb2.REFUND_STATUS_FAILED))
    assert ended(watch)
