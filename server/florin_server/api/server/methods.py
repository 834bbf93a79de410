"""Properties of RPCs, read at start: access, checks, and the treatment of idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from florin.v1 import access_pb2
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from florin_server.api.server.validate import RequestValidator

_OPERATOR = access_pb2.CALLER_FAMILY_OPERATOR


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One RPC.

    `is_mutation`: it runs to its end even if its caller leaves. `is_key_guarded`: a key only
    refuses a different request. `is_relayed`: in the deployed profile an outage is reported as a
    bad gateway.
    """

    name: str
    short_name: str  # without its package
    request_type: Descriptor
    rule: access_pb2.AccessRule
    validate: RequestValidator
    is_mutation: bool
    is_key_guarded: bool
    is_relayed: bool


def index_methods(services: Iterable[ServiceDescriptor]) -> dict[str, MethodSpec]:
    """Return all RPCs by path.

    Raise ValueError, so that the server cannot start, if an RPC has no access rule, or a service
    mixes the operator's RPCs with others: each must not be served on the other's listener.
    """
    method_specs: dict[str, MethodSpec] = {}
    for service in services:
        methods = {
            f"/{service.full_name}/{method_descriptor.name}": _build_method(method_descriptor)
            for method_descriptor in service.methods
        }
        if len({method.rule.family == _OPERATOR for method in methods.values()}) > 1:
            raise ValueError(f"{service.full_name} mixes RPCs of the operator with others")
        method_specs |= methods
    return method_specs


def _build_method(descriptor: MethodDescriptor) -> MethodSpec:
    rule: access_pb2.AccessRule = descriptor.GetOptions().Extensions[access_pb2.access]
    if not rule.family:
        raise ValueError(f"{descriptor.full_name} has no access rule")
    if not (rule.outage or rule.family == _OPERATOR):
        raise ValueError(f"{descriptor.full_name} has no outage rule")
    return MethodSpec(
        name=descriptor.full_name,
        short_name=f"{descriptor.containing_service.name}.{descriptor.name}",
        request_type=descriptor.input_type,
        rule=rule,
        validate=RequestValidator.for_method(descriptor),
        # the operator's calls have no scope, and most of them change data
        is_mutation=rule.scope != access_pb2.KEY_SCOPE_READ,
        is_key_guarded=rule.idempotency == access_pb2.IDEMPOTENCY_RULE_GUARD,
        is_relayed=rule.outage == access_pb2.OUTAGE_RULE_BAD_GATEWAY,
    )
