"""Convert gRPC answers to the JSON that REST gives for them."""

from __future__ import annotations

import json
from typing import Any

from florin_gateway.jsoncodec import JsonCodec
from florin_gateway.profiles import JsonProfile
from google.protobuf.message import Message

_CODEC = JsonCodec()


def to_json(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(
        _CODEC.get_encoder(message.DESCRIPTOR, JsonProfile.SPEC)(message)
    )
    return result
