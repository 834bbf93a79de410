"""The OpenAPI document of the API: generated at build time, served unchanged."""

from pathlib import Path

DOCUMENT_PATH = Path(__file__).with_name("openapi.json")
