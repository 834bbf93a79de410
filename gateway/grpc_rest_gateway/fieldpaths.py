"""Member paths: servers send proto names, clients get JSON names."""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor

_SEGMENT = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


def to_json_path(descriptor: Descriptor, path: str) -> str:
    """Return a path of a request's fields in the names of their JSON members.

    A segment that names no field stays unchanged: an older server sends JSON names.
    """
    below: Descriptor | None = descriptor
    segments = []
    for segment in path.split("."):
        parts = _SEGMENT.fullmatch(segment)
        field_descriptor = None
        if below is not None and parts is not None:
            field_descriptor = below.fields_by_name.get(parts[1])
        segments.append(
            segment
            if field_descriptor is None or parts is None
            else field_descriptor.json_name + parts[2]
        )
        below = None if field_descriptor is None else field_descriptor.message_type
    return ".".join(segments)
