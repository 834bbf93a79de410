"""gRPC answers as the JSON that REST gives for them."""

from __future__ import annotations

import json
from typing import Any

from florin_gateway.jsoncodec import Codec
from florin_gateway.profiles import Profile
from google.protobuf.message import Message

_CODEC = Codec()


def plain(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(_CODEC.encoder(message.DESCRIPTOR, Profile.SPEC)(message))
    return result
