"""Streams of changes that are taken up again where they broke off, no state told twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from florin.v1.payment_pb2 import WatchPaymentRequest, WatchPaymentResponse
from florin.v1.refund_pb2 import (
    REFUND_STATUS_FAILED,
    REFUND_STATUS_SUCCEEDED,
    WatchRefundRequest,
    WatchRefundResponse,
)
from google.protobuf.message import Message

from florin_client.calls.rpc import Call, Rpc

Update = TypeVar("Update", bound=Message)


class Watching(Protocol[Update]):
    """A stream over all the connections that it takes; `final` once its last state was told."""

    @property
    def final(self) -> bool:
        """Nothing is to come."""

    def call(self) -> Call[Update]:
        """Asks for what was not told yet."""

    def take(self, update: Update) -> bool:
        """Notes an update; False if it was told before."""

    def resume(self) -> None:
        """A connection has ended in good order, but before the final state."""


class PaymentWatch:
    """The changes of a payment, by their version.

    A server that is stopped in good order ends a stream before the final state, as well as one
    that has nothing newer than what the caller knows. The two are told apart by the state now.
    """

    def __init__(
        self,
        rpc: Rpc[WatchPaymentRequest, WatchPaymentResponse],
        payment_id: str,
        after_version: int | None,
        options: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rpc = rpc
        self._payment_id = payment_id
        self._version = after_version
        self._answered = False
        self._from_now = False
        self._final = False

    def call(self) -> Call[WatchPaymentResponse]:
        """Asks for versions above the last one, or for the state now."""
        after = None if self._from_now else self._version
        request = WatchPaymentRequest(payment_id=self._payment_id, after_version=after)
        return self._rpc(request, self._options)

    def take(self, update: WatchPaymentResponse) -> bool:
        """Versions rise by one with every change."""
        self._answered = True
        self._final = update.payment.is_final
        if self._version is not None and update.version <= self._version:
            return False
        self._version = update.version
        return True

    @property
    def final(self) -> bool:
        """The final state was told, or is what the caller knew."""
        return self._final

    def resume(self) -> None:
        """Asks for the state now if nothing was heard yet."""
        self._from_now = not self._answered


class RefundWatch:
    """The changes of a refund, which have no versions: the same state twice is told once."""

    def __init__(
        self,
        rpc: Rpc[WatchRefundRequest, WatchRefundResponse],
        payment_id: str,
        refund_id: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rpc = rpc
        self._payment_id = payment_id
        self._refund_id = refund_id
        self._last: WatchRefundResponse | None = None

    def call(self) -> Call[WatchRefundResponse]:
        """Asks for the state now and what follows."""
        request = WatchRefundRequest(payment_id=self._payment_id, refund_id=self._refund_id)
        return self._rpc(request, self._options)

    def take(self, update: WatchRefundResponse) -> bool:
        """A stream that is taken up begins with the state now, known or not."""
        told, self._last = self._last, update
        # a stream that is resumed follows the same refund, even if there is a newer one by then
        self._refund_id = update.refund.refund_id or self._refund_id
        return update != told

    @property
    def final(self) -> bool:
        """The final state was told."""
        final = (REFUND_STATUS_SUCCEEDED, REFUND_STATUS_FAILED)
        return self._last is not None and self._last.refund.status in final

    def resume(self) -> None:
        """A stream always begins with the state now."""
