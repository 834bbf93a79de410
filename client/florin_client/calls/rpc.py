"""One call as a value: its RPC, request and idempotency key. Nothing here does I/O."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from florin.v1 import access_pb2, admin_pb2, gateway_pb2, merchant_pb2, webhook_service_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_SERVICES = {
    service.name: service
    for file in (gateway_pb2, merchant_pb2, admin_pb2, webhook_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
}
_KEYLESS_RULES = frozenset(
    {access_pb2.IDEMPOTENCY_RULE_UNSPECIFIED, access_pb2.IDEMPOTENCY_RULE_GUARD}
)


class CallOptions(TypedDict, total=False):
    """Options of every call, besides its request.

    `timeout` in seconds limits the call with all its attempts; None means no limit.
    """

    timeout: float | None


class KeyedCallOptions(CallOptions, total=False):
    """Options of a call that changes data.

    `idempotency_key` is your own key, up to 255 printable ASCII characters; keep it over restarts
    of your program. By default each call gets a new key for all its attempts. A wallet's calls have
    one effect even without a key, and send none unless it is given.
    """

    idempotency_key: str


@dataclass(frozen=True)
class RpcSpec(Generic[Request, Answer]):
    """An RPC of the public listener, by its names in the protos, with its access rule."""

    service: str
    name: str
    request: type[Request]
    response: type[Answer]

    def __post_init__(self) -> None:
        method = self._method
        if (method.input_type, method.output_type) != (
            self.request.DESCRIPTOR,
            self.response.DESCRIPTOR,
        ):
            raise TypeError(f"{self.service}.{self.name} has other messages")

    @property
    def _method(self) -> MethodDescriptor:
        method: MethodDescriptor = _SERVICES[self.service].methods_by_name[self.name]
        return method

    @property
    def needs_key(self) -> bool:
        """Return True if attempts can be repeated only under an idempotency key.

        For RPCs where a key only guards, the call itself has one effect.
        """
        rule = self._method.GetOptions().Extensions[access_pb2.access]
        return rule.idempotency not in _KEYLESS_RULES

    def __call__(self, request: Request, options: Mapping[str, Any]) -> RpcCall[Answer]:
        """Return the call with a request."""
        key = options.get("idempotency_key")
        if key is None and self.needs_key:
            key = uuid.uuid4().hex
        return RpcCall(
            self,
            request,
            request_id=f"req_{uuid.uuid4().hex}",
            idempotency_key=key,
            timeout=options.get("timeout", DEFAULT_TIMEOUT),
            merchant_id=options.get("merchant_id"),
        )


class DefaultTimeout:
    """Marker: use the client's own timeout."""


DEFAULT_TIMEOUT = DefaultTimeout()


@dataclass(frozen=True, slots=True)
class RpcCall(Generic[Answer]):
    """A call to make, with all its attempts."""

    rpc: RpcSpec[Any, Answer]
    request: Message
    request_id: str
    idempotency_key: str | None
    timeout: float | DefaultTimeout | None
    merchant_id: str | None

    def build_metadata(self, credentials: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the metadata of each attempt."""
        own = {"request-id": self.request_id}
        if self.idempotency_key is not None:
            own["idempotency-key"] = self.idempotency_key
        if self.merchant_id is not None:
            own["merchant-id"] = self.merchant_id
        return tuple({**credentials, **own}.items())
