"""Convert messages to JSON and back, in every profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor

from grpc_rest_gateway import jsoncanonical
from grpc_rest_gateway.errors import RequestIssue
from grpc_rest_gateway.jsondecode import ISSUES_MAX, DecoderCompiler
from grpc_rest_gateway.jsonencode import EncoderCompiler
from grpc_rest_gateway.jsonignored import format_ignored_members
from grpc_rest_gateway.profiles import JsonProfile

JsonEncoder = Callable[[Any], bytes]
JsonDecoder = Callable[[Any, Any], list[RequestIssue]]
# returns names separated by commas
IgnoredLister = Callable[[Any, JsonProfile], str]


class JsonCodec:
    """Encoders and decoders of message types, compiled on first use.

    Canonical JSON with unknown members is refused, unless they are ignored; the other profiles
    always ignore them. With `report_ignored`, the service receives their names in the metadata
    `ignored-members`.
    """

    def __init__(self, *, ignore_unknown: bool = False, report_ignored: bool = False) -> None:
        self.ignore_unknown = ignore_unknown
        self._report_ignored = report_ignored
        own = (JsonProfile.SPEC, JsonProfile.DEPLOYED)
        self._encoders = {profile: EncoderCompiler(profile) for profile in own}
        self._decoders = {profile: DecoderCompiler(profile) for profile in own}

    def get_encoder(
        self, descriptor: Descriptor, profile: JsonProfile, member: str = ""
    ) -> JsonEncoder:
        """Return a function from message to JSON text; with `member`, of that member alone."""
        if profile is JsonProfile.CANONICAL:
            show_canonical = (
                jsoncanonical.make_member_formatter(descriptor, member)
                if member
                else jsoncanonical.to_json_value
            )
            return lambda message: orjson.dumps(show_canonical(message))
        show = self._encoders[profile].get_encoder(descriptor)
        if member:
            return lambda message: orjson.dumps(show(message).get(member))
        return lambda message: orjson.dumps(show(message))

    def get_decoder(
        self,
        descriptor: Descriptor,
        profile: JsonProfile,
        excluded_fields: frozenset[str] = frozenset(),
    ) -> JsonDecoder:
        """Return a function that fills a message from JSON and returns its faults, at most a page.

        Fields named in `excluded_fields` are not members, except in canonical JSON, in which the
        path takes precedence.
        """
        if profile is JsonProfile.CANONICAL:

            def decode_canonical(value: Any, message: Any) -> list[RequestIssue]:
                return jsoncanonical.fill_message(
                    value, message, ignore_unknown=self.ignore_unknown
                )[:ISSUES_MAX]

            return decode_canonical
        fill = self._decoders[profile].get_decoder(descriptor, excluded_fields)

        def decode(value: Any, message: Any) -> list[RequestIssue]:
            faults: list[RequestIssue] = []
            fill(value, message, faults)
            return faults[:ISSUES_MAX]

        return decode

    def get_ignored_lister(
        self, descriptor: Descriptor, excluded_fields: frozenset[str]
    ) -> IgnoredLister:
        """Return a function that names the ignored members of a body, if they are reported."""

        def list_ignored(value: Any, profile: JsonProfile) -> str:
            if not self._report_ignored or profile is JsonProfile.CANONICAL:
                return ""
            return format_ignored_members(value, descriptor, excluded_fields)

        return list_ignored
