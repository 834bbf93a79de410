"""Member paths in the names that gRPC callers use."""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor

_SEGMENT = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


def to_proto_path(descriptor: Descriptor, path: str) -> str:
    """Return a JSON path of a request, such as `amounts[0].minValue`, in names of its proto.

    A segment that names no field stays unchanged, with all segments below it.
    """
    below: Descriptor | None = descriptor
    segments = []
    for segment in path.split("."):
        parts = _SEGMENT.fullmatch(segment)
        field_descriptor = None
        if below is not None and parts is not None:
            field_descriptor = next(
                (field for field in below.fields if field.json_name == parts[1]), None
            )
        segments.append(
            segment
            if field_descriptor is None or parts is None
            else field_descriptor.name + parts[2]
        )
        below = None if field_descriptor is None else field_descriptor.message_type
    return ".".join(segments)
