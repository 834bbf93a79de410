"""Test interrupted streams: what the Python client requests next, and what it yields."""

from __future__ import annotations

from florin.v1 import payment_pb2, refund_pb2
from florin_client.calls import gateway, merchant

REQUIRES_ACTION = payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION
PROCESSING = payment_pb2.PAYMENT_STATUS_PROCESSING
SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED


def state(version, status=REQUIRES_ACTION):
    status_response = payment_pb2.GetPaymentStatusResponse(
        status=status, is_final=status == SUCCEEDED
    )
    return payment_pb2.WatchPaymentResponse(version=version, payment=status_response)


def ended(watch):
    """End a connection cleanly; return whether it was the last."""
    if not watch.is_final:
        watch.resume()
    return watch.is_final


def after(watch):
    """Return the version after which the next connection starts."""
    request = watch.build_call().request
    assert request.payment_id == "pay_1"
    return request.after_version if request.HasField("after_version") else None


def test_watch_resumes_after_the_last_version():
    watch = merchant.watch_payment("pay_1")
    assert after(watch) is None
    assert watch.accept_update(state(0))
    assert watch.accept_update(state(1, PROCESSING))
    assert not ended(watch)
    assert after(watch) == 1
    # a server that starts with the current state brings no news
    assert not watch.accept_update(state(1, PROCESSING))
    assert watch.accept_update(state(2, SUCCEEDED))
    assert ended(watch)


def test_a_server_that_is_stopped_twice_in_silence_ends_nothing():
    watch = gateway.watch_payment("pay_1")
    assert watch.accept_update(state(0))
    for _ in range(2):
        assert not ended(watch)
        assert after(watch) == 0


def test_watch_after_the_final_version_yields_nothing():
    watch = merchant.watch_payment("pay_1", after_version=2)
    assert after(watch) == 2
    # after a clean end: is the payment over, or did the stream only stop?
    assert not ended(watch)
    assert after(watch) is None
    assert not watch.accept_update(state(2, SUCCEEDED))
    assert ended(watch)


def test_watch_after_a_version_yields_only_later_versions():
    watch = merchant.watch_payment("pay_1", after_version=1)
    assert not ended(watch)
    assert not watch.accept_update(state(1, PROCESSING))
    assert not ended(watch)
    assert after(watch) == 1
    assert watch.accept_update(state(2, SUCCEEDED))
    assert ended(watch)


def test_each_refund_status_is_yielded_once():
    def refund(status):
        return refund_pb2.WatchRefundResponse(refund=refund_pb2.Refund(status=status))

    watch = merchant.watch_refund("pay_1")
    assert not ended(watch)
    assert watch.accept_update(refund(refund_pb2.REFUND_STATUS_PENDING))
    assert not ended(watch)
    assert not watch.accept_update(refund(refund_pb2.REFUND_STATUS_PENDING))
    assert watch.accept_update(refund(refund_pb2.REFUND_STATUS_PROCESSING))
    assert watch.accept_update(refund(refund_pb2.REFUND_STATUS_FAILED))
    assert ended(watch)
