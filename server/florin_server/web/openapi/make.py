"""Render the OpenAPI document from an image of the protos; the code generator calls this module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.descriptor import ServiceDescriptor
from grpc_rest_gateway.openapi import ProtoComments

from florin_server.web.openapi.document import build_document
from florin_server.web.openapi.examples import collect_examples


def render_document(
    services: Sequence[ServiceDescriptor], image: bytes, examples_folder: Path
) -> str:
    """Return the text of the document, with the examples in `examples_folder`."""
    comments = ProtoComments(image)
    paths = build_document(services, comments, {})["paths"]
    document = build_document(services, comments, collect_examples(paths, examples_folder))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
