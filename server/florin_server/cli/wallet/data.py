"""Collect the buyer data that an option requires, from a file or at the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from florin.v1 import gateway_pb2

from florin_server.cli.console import is_interactive, print_hint
from florin_server.cli.operation import usage_error
from florin_server.cli.prompt import OperatorPrompt

_FILE_BYTES_MAX = 65_536


def collect_data(requirement: gateway_pb2.CollectData, file: Path | None) -> dict[str, Any]:
    """Return the data by field id; end the program if it cannot be collected."""
    if file is not None:
        return _read_file(file)
    if not is_interactive():
        names = ", ".join(collect_data_field.id for collect_data_field in requirement.fields)
        usage_error(
            f"this option needs buyer data ({names}): use --data FILE, or enter it at "
            f"{requirement.url}"
        )
    print_hint("The merchant needs this buyer data:")
    answers = {
        collect_data_field.id: _ask_field(collect_data_field)
        for collect_data_field in requirement.fields
    }
    return {name: value for name, value in answers.items() if value is not None}


def _read_file(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            usage_error(f"{file} is larger than {_FILE_BYTES_MAX} bytes")
        document = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        usage_error(f"{file} cannot be read: {error}")
    if not isinstance(document, dict):
        usage_error(f"{file} contains no JSON object")
    return document


def _ask_field(field: gateway_pb2.CollectDataField) -> Any:
    prompt = OperatorPrompt(is_quiet=False)
    if field.type == gateway_pb2.COLLECT_DATA_FIELD_TYPE_CHECKBOX:
        return prompt.ask_yes_no(field.name, default=False)
    is_date = field.type == gateway_pb2.COLLECT_DATA_FIELD_TYPE_DATE
    question = f"{field.name} (YYYY-MM-DD)" if is_date else field.name
    text = prompt.ask_text(question, "--data", None, None if field.required else "")
    return text or None
