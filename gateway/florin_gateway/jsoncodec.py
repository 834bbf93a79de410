"""Messages to JSON and back, in every profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor

from florin_gateway.errors import Issue
from florin_gateway.jsondecode import ISSUES_MAX, Decoders
from florin_gateway.jsonencode import Encoders
from florin_gateway.profiles import Profile

Encode = Callable[[Any], bytes]
Decode = Callable[[Any, Any], list[Issue]]


class Codec:
    """Encoders and decoders of message types, compiled when first asked for."""

    def __init__(self) -> None:
        own = (Profile.SPEC, Profile.DEPLOYED)
        self._encoders = {profile: Encoders(profile) for profile in own}
        self._decoders = {profile: Decoders(profile) for profile in own}

    def encoder(self, descriptor: Descriptor, profile: Profile, member: str = "") -> Encode:
        """Message to JSON text; with `member`, of that JSON member alone."""
        show = (
            _canonical if profile is Profile.CANONICAL else self._encoders[profile].of(descriptor)
        )
        if member:
            return lambda message: orjson.dumps(show(message).get(member))
        return lambda message: orjson.dumps(show(message))

    def decoder(
        self, descriptor: Descriptor, profile: Profile, without: frozenset[str] = frozenset()
    ) -> Decode:
        """Parsed JSON into a message; returns what is wrong with it, at most a page of issues.

        Fields named in `without` are no members. Canonical JSON tells no paths.
        """
        if profile is Profile.CANONICAL:
            return _fill_canonical
        fill = self._decoders[profile].of(descriptor, without)

        def decode(value: Any, message: Any) -> list[Issue]:
            faults: list[Issue] = []
            fill(value, message, faults)
            return faults[:ISSUES_MAX]

        return decode


def _canonical(message: Any) -> Any:
    return json_format.MessageToDict(message)


def _fill_canonical(value: Any, message: Any) -> list[Issue]:
    try:
        json_format.ParseDict(value, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        # its own text would list the schema
        return [Issue("", "does not fit the schema")]
    return []
