"""Streams of changes that are taken up again where they broke off, each change told once."""

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
    """A stream over all the connections that it takes."""

    def call(self) -> Call[Update]:
        """Asks for what was not told yet."""

    def take(self, update: Update) -> bool:
        """Notes an update; False if it was told before."""

    def over(self) -> bool:
        """Whether a connection that ended in good order was the last one."""


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

    def over(self) -> bool:
        """After the final state."""
        self._from_now = not self._answered
        return self._final


class RefundWatch:
    """The changes of a refund, which have no versions: the same state twice is told once."""

    def __init__(
        self,
        rpc: Rpc[WatchRefundRequest, WatchRefundResponse],
        payment_id: str,
        options: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rpc = rpc
        self._payment_id = payment_id
        self._last: WatchRefundResponse | None = None

    def call(self) -> Call[WatchRefundResponse]:
        """Asks for the state now and what follows."""
        return self._rpc(WatchRefundRequest(payment_id=self._payment_id), self._options)

    def take(self, update: WatchRefundResponse) -> bool:
        """A stream that is taken up begins with the state now, known or not."""
        told, self._last = self._last, update
        return update != told

    def over(self) -> bool:
        """After the final state."""
        final = (REFUND_STATUS_SUCCEEDED, REFUND_STATUS_FAILED)
        return self._last is not None and self._last.refund.status in final
