"""What is known of an RPC at start: who may call it, what it checks, what a key means to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from florin.v1 import access_pb2
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from florin_server.rpc.server.validate import Validator

_OPERATOR = access_pb2.CALLER_FAMILY_OPERATOR


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC.

    `mutates`: a caller that leaves does not stop it half-way. `guarded`: a key only refuses another
    request. `relays`: the deployed profile tells what is down behind us as a gateway would.
    """

    name: str
    short_name: str  # without its package
    request: Descriptor
    rule: access_pb2.AccessRule
    validate: Validator
    mutates: bool
    guarded: bool
    relays: bool


def methods_of(services: Iterable[ServiceDescriptor]) -> dict[str, Method]:
    """All RPCs by path.

    ValueError, so that the server cannot start, if one has no access rule, or if a service is for
    the operator and for others: each is served where the other must not be.
    """
    found: dict[str, Method] = {}
    for service in services:
        methods = {f"/{service.full_name}/{one.name}": _method(one) for one in service.methods}
        if len({method.rule.family == _OPERATOR for method in methods.values()}) > 1:
            raise ValueError(f"{service.full_name} is for the operator and for others")
        found |= methods
    return found


def _method(method: MethodDescriptor) -> Method:
    rule: access_pb2.AccessRule = method.GetOptions().Extensions[access_pb2.access]
    if not rule.family:
        raise ValueError(f"{method.full_name} has no access rule")
    if not (rule.outage or rule.family == _OPERATOR):
        raise ValueError(f"{method.full_name} does not say what an outage is told as")
    return Method(
        name=method.full_name,
        short_name=f"{method.containing_service.name}.{method.name}",
        request=method.input_type,
        rule=rule,
        validate=Validator.of(method),
        # the operator's calls have no scope, and most of them change something
        mutates=rule.scope != access_pb2.KEY_SCOPE_READ,
        guarded=rule.idempotency == access_pb2.IDEMPOTENCY_RULE_GUARD,
        relays=rule.outage == access_pb2.OUTAGE_RULE_BAD_GATEWAY,
    )
