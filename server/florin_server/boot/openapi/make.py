"""Makes the document from an image of the protos; the code generator calls it."""

from __future__ import annotations

import json
from pathlib import Path

from florin_gateway.openapi import Comments

from florin_server.boot.grpc_server import PUBLIC
from florin_server.boot.openapi.document import build
from florin_server.boot.openapi.examples import examples_of


def make(image: bytes, answers: Path) -> str:
    """The text of the document. `answers` is the folder of answers that become examples."""
    comments = Comments(image)
    paths = build(PUBLIC, comments, {})["paths"]
    document = build(PUBLIC, comments, examples_of(paths, answers))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
