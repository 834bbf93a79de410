"""Convert gRPC answers to the JSON that REST gives for them."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.message import Message
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile

_CODEC = JsonCodec()


def to_json(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(
        _CODEC.get_encoder(message.DESCRIPTOR, JsonProfile.SPEC)(message)
    )
    return result
