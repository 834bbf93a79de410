"""OpenAPI 3.1 from the same descriptors and options that routes and codec are compiled from."""

from florin_gateway.openapi.comments import Comments
from florin_gateway.openapi.operations import Operation, operations_of, streamed
from florin_gateway.openapi.schemas import Schemas, Side

__all__ = ["Comments", "Operation", "Schemas", "Side", "operations_of", "streamed"]
