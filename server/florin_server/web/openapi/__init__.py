"""The OpenAPI document of the API: built with the generated code, served as it was built."""

from pathlib import Path

DOCUMENT = Path(__file__).with_name("openapi.json")
