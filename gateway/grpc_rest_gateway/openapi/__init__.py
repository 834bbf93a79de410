"""OpenAPI 3.1 from the same descriptors and options as the routes and the codec."""

from grpc_rest_gateway.openapi.comments import ProtoComments
from grpc_rest_gateway.openapi.operations import (
    OpenApiOperation,
    build_stream_responses,
    list_operations,
)
from grpc_rest_gateway.openapi.schemas import LENIENT_EXTENSION, SchemaRegistry, SchemaSide

__all__ = [
    "LENIENT_EXTENSION",
    "OpenApiOperation",
    "ProtoComments",
    "SchemaRegistry",
    "SchemaSide",
    "build_stream_responses",
    "list_operations",
]
