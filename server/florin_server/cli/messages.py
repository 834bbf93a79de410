"""Convert messages to the JSON of the REST API."""

from __future__ import annotations

from typing import Any

from grpc_rest_gateway.jsonencode import EncoderCompiler
from grpc_rest_gateway.profiles import JsonProfile

_ENCODERS = EncoderCompiler(JsonProfile.SPEC)


def to_rest_json(message: Any) -> Any:
    """Return the JSON that REST returns for a message."""
    return _ENCODERS.get_encoder(message.DESCRIPTOR)(message)
