"""One call as a value: which RPC, with what request, under what key. Nothing here does I/O."""

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
_KEYLESS = frozenset({access_pb2.IDEMPOTENCY_RULE_UNSPECIFIED, access_pb2.IDEMPOTENCY_RULE_GUARD})


class Options(TypedDict, total=False):
    """What any call may be told besides its request.

    `timeout` in seconds bounds it with all its attempts; None means no bound.
    """

    timeout: float | None


class KeyedOptions(Options, total=False):
    """The same for a call that changes something.

    `idempotency_key` is the caller's own, up to 255 printable ASCII characters, kept over restarts
    of the caller; else each call has one of its own for all its attempts. A wallet's calls do the
    same thing once without any, and have none unless it is given.
    """

    idempotency_key: str


@dataclass(frozen=True)
class Rpc(Generic[Request, Answer]):
    """An RPC of the public listener, by the names of the protos, with its rule."""

    service: str
    name: str
    request: type[Request]
    answer: type[Answer]

    def __post_init__(self) -> None:
        method = self._method
        if (method.input_type, method.output_type) != (
            self.request.DESCRIPTOR,
            self.answer.DESCRIPTOR,
        ):
            raise TypeError(f"{self.service}.{self.name} has other messages")

    @property
    def _method(self) -> MethodDescriptor:
        method: MethodDescriptor = _SERVICES[self.service].methods_by_name[self.name]
        return method

    @property
    def keyed(self) -> bool:
        """An attempt may be repeated under its key only.

        Where a key only guards, the call itself is what is carried out once.
        """
        rule = self._method.GetOptions().Extensions[access_pb2.access]
        return rule.idempotency not in _KEYLESS

    def __call__(self, request: Request, options: Mapping[str, Any]) -> Call[Answer]:
        """The call with a request."""
        key = options.get("idempotency_key")
        if key is None and self.keyed:
            key = uuid.uuid4().hex
        return Call(
            self,
            request,
            request_id=f"req_{uuid.uuid4().hex}",
            key=key,
            timeout=options.get("timeout", DEFAULT),
            merchant_id=options.get("merchant_id"),
        )


class Default:
    """The client's own timeout, where a call is told none."""


DEFAULT = Default()


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A call to be made, with all its attempts."""

    rpc: Rpc[Any, Answer]
    request: Message
    request_id: str
    key: str | None
    timeout: float | Default | None
    merchant_id: str | None

    def metadata(self, credentials: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """What goes with each of its attempts."""
        own = {"request-id": self.request_id}
        if self.key is not None:
            own["idempotency-key"] = self.key
        if self.merchant_id is not None:
            own["merchant-id"] = self.merchant_id
        return tuple({**credentials, **own}.items())
