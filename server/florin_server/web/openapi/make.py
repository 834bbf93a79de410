"""Makes the document from an image of the protos; the code generator calls it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from florin_gateway.openapi import Comments
from google.protobuf.descriptor import ServiceDescriptor

from florin_server.web.openapi.document import build
from florin_server.web.openapi.examples import examples_of


def make(services: Sequence[ServiceDescriptor], image: bytes, answers: Path) -> str:
    """The text of the document. `answers` is the folder of answers that become examples."""
    comments = Comments(image)
    paths = build(services, comments, {})["paths"]
    document = build(services, comments, examples_of(paths, answers))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
