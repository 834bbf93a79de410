"""Paths of members as gRPC callers know them."""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor

_SEGMENT = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


def to_proto_path(descriptor: Descriptor, path: str) -> str:
    """Return a JSON path of a request, such as `amounts[0].minValue`, in names of its proto.

    What no field is called stays as it is, with all below it.
    """
    below: Descriptor | None = descriptor
    segments = []
    for segment in path.split("."):
        parts = _SEGMENT.fullmatch(segment)
        found = None
        if below is not None and parts is not None:
            found = next((one for one in below.fields if one.json_name == parts[1]), None)
        segments.append(segment if found is None or parts is None else found.name + parts[2])
        below = None if found is None else found.message_type
    return ".".join(segments)
