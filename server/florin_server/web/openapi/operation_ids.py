"""Operation ids: the names of methods in generated clients."""

from __future__ import annotations

from grpc_rest_gateway.openapi import OpenApiOperation

# of RPCs that have the name of a merchant's RPC
_GATEWAY_IDS = {
    "GetPayment": "getGatewayPayment",
    "GetPaymentStatus": "getGatewayPaymentStatus",
    "CancelPayment": "cancelGatewayPayment",
    "WatchPayment": "watchGatewayPayment",
}
_ALIAS_SUFFIX = "Alias"


def make_operation_id(operation: OpenApiOperation) -> str:
    """Return the name of the RPC in lowerCamelCase; aliases and some calls of wallets differ."""
    name = operation.method.name
    own_id = name[0].lower() + name[1:]
    if operation.method.containing_service.name == "GatewayService":
        own_id = _GATEWAY_IDS.get(name, own_id)
    return own_id + (_ALIAS_SUFFIX if operation.is_additional else "")
