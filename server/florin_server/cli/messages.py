"""Messages as JSON, in the dialect of the REST API."""

from __future__ import annotations

from typing import Any

from florin_gateway.jsonencode import Encoders
from florin_gateway.profiles import Profile
from google.protobuf.message import Message

_ENCODERS = Encoders(Profile.SPEC)


def shown(message: Any) -> Any:
    """What REST answers where it tells this message."""
    return _ENCODERS.of(message.DESCRIPTOR)(message)


def word(message: Message, member: str) -> str:
    """An enum's value in the same words."""
    return str(shown(message).get(member) or "-")
