"""Streams of changes that resume after a lost connection without repeating a state."""

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

from florin_client.calls.rpc import RpcCall, RpcSpec

Update = TypeVar("Update", bound=Message)


class WatchSession(Protocol[Update]):
    """A stream over all its connections; `is_final` once its last state was delivered."""

    @property
    def is_final(self) -> bool:
        """Return True if no further update can come."""

    def build_call(self) -> RpcCall[Update]:
        """Return the call for the updates that were not delivered yet."""

    def accept_update(self, update: Update) -> bool:
        """Record an update; return False if it was delivered before."""

    def resume(self) -> None:
        """Handle a connection that ended cleanly before the final state."""


class PaymentWatch:
    """The changes of a payment, by version.

    A server that stops cleanly ends a stream before the final state. A server without a newer
    version ends a stream in the same way. The current state distinguishes the two.
    """

    def __init__(
        self,
        rpc: RpcSpec[WatchPaymentRequest, WatchPaymentResponse],
        payment_id: str,
        after_version: int | None,
        options: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rpc = rpc
        self._payment_id = payment_id
        self._version = after_version
        self._has_update = False
        self._restarts_from_now = False
        self._is_final = False

    def build_call(self) -> RpcCall[WatchPaymentResponse]:
        """Return the call for versions above the last one, or for the current state."""
        after = None if self._restarts_from_now else self._version
        request = WatchPaymentRequest(payment_id=self._payment_id, after_version=after)
        return self._rpc(request, self._options)

    def accept_update(self, update: WatchPaymentResponse) -> bool:
        """Record an update by its version: versions increase by one with every change."""
        self._has_update = True
        self._is_final = update.payment.is_final
        if self._version is not None and update.version <= self._version:
            return False
        self._version = update.version
        return True

    @property
    def is_final(self) -> bool:
        """Return True once the final state was delivered, or the caller already has it."""
        return self._is_final

    def resume(self) -> None:
        """Request the current state if no update has arrived yet."""
        self._restarts_from_now = not self._has_update


class RefundWatch:
    """The changes of a refund, which have no versions: an equal state is delivered once."""

    def __init__(
        self,
        rpc: RpcSpec[WatchRefundRequest, WatchRefundResponse],
        payment_id: str,
        refund_id: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rpc = rpc
        self._payment_id = payment_id
        self._refund_id = refund_id
        self._last_update: WatchRefundResponse | None = None

    def build_call(self) -> RpcCall[WatchRefundResponse]:
        """Return the call for the current state and later ones."""
        request = WatchRefundRequest(payment_id=self._payment_id, refund_id=self._refund_id)
        return self._rpc(request, self._options)

    def accept_update(self, update: WatchRefundResponse) -> bool:
        """Record an update; a resumed stream starts with the current state, known or not."""
        response, self._last_update = self._last_update, update
        # a resumed stream follows the same refund, even if a newer refund exists by then
        self._refund_id = update.refund.refund_id or self._refund_id
        return update != response

    @property
    def is_final(self) -> bool:
        """Return True once the final state was delivered."""
        final = (REFUND_STATUS_SUCCEEDED, REFUND_STATUS_FAILED)
        return self._last_update is not None and self._last_update.refund.status in final

    def resume(self) -> None:
        """Do nothing: a stream always starts with the current state."""
