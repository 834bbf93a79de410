"""Messages to JSON and back, in every profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor

from florin_gateway import jsoncanonical
from florin_gateway.errors import Issue
from florin_gateway.jsondecode import ISSUES_MAX, Decoders
from florin_gateway.jsonencode import Encoders
from florin_gateway.profiles import Profile

Encode = Callable[[Any], bytes]
Decode = Callable[[Any, Any], list[Issue]]


class Codec:
    """Encoders and decoders of message types, compiled when first asked for.

    Canonical JSON is refused if it has unknown members, unless they are ignored; the other
    profiles always ignore them.
    """

    def __init__(self, *, ignore_unknown: bool = False) -> None:
        self.ignore_unknown = ignore_unknown
        own = (Profile.SPEC, Profile.DEPLOYED)
        self._encoders = {profile: Encoders(profile) for profile in own}
        self._decoders = {profile: Decoders(profile) for profile in own}

    def encoder(self, descriptor: Descriptor, profile: Profile, member: str = "") -> Encode:
        """Message to JSON text; with `member`, of that JSON member alone."""
        if profile is Profile.CANONICAL:
            show_canonical = (
                jsoncanonical.show_member(descriptor, member) if member else jsoncanonical.show
            )
            return lambda message: orjson.dumps(show_canonical(message))
        show = self._encoders[profile].of(descriptor)
        if member:
            return lambda message: orjson.dumps(show(message).get(member))
        return lambda message: orjson.dumps(show(message))

    def decoder(
        self, descriptor: Descriptor, profile: Profile, without: frozenset[str] = frozenset()
    ) -> Decode:
        """Parsed JSON into a message; returns what is wrong with it, at most a page of issues.

        Fields named in `without` are no members, but of canonical JSON, in which the path wins.
        """
        if profile is Profile.CANONICAL:

            def decode_canonical(value: Any, message: Any) -> list[Issue]:
                return jsoncanonical.fill(value, message, ignore_unknown=self.ignore_unknown)[
                    :ISSUES_MAX
                ]

            return decode_canonical
        fill = self._decoders[profile].of(descriptor, without)

        def decode(value: Any, message: Any) -> list[Issue]:
            faults: list[Issue] = []
            fill(value, message, faults)
            return faults[:ISSUES_MAX]

        return decode
