"""Paths of members, which servers tell in names of protos, in names of JSON."""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor

_SEGMENT = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


def to_json_path(descriptor: Descriptor, path: str) -> str:
    """Return a path of a request's fields in the names of their JSON members.

    What no field is called stays as it is: an older server tells names of JSON.
    """
    below: Descriptor | None = descriptor
    segments = []
    for segment in path.split("."):
        parts = _SEGMENT.fullmatch(segment)
        found = None
        if below is not None and parts is not None:
            found = below.fields_by_name.get(parts[1])
        segments.append(segment if found is None or parts is None else found.json_name + parts[2])
        below = None if found is None else found.message_type
    return ".".join(segments)
