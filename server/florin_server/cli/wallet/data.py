"""What a buyer is asked about itself, from a file or at the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from florin.v1 import gateway_pb2

from florin_server.cli.console import is_seen, note
from florin_server.cli.operation import misused
from florin_server.cli.prompt import Prompt

_FILE_BYTES_MAX = 65_536


def collected(asked: gateway_pb2.CollectData, file: Path | None) -> dict[str, Any]:
    """The data by the names of its fields; ends the program if it cannot be had."""
    if file is not None:
        return _of_file(file)
    if not is_seen():
        names = ", ".join(one.id for one in asked.fields)
        misused(f"this option needs data about the buyer ({names}): --data FILE, or {asked.url}")
    note("The merchant has to know about the buyer:")
    given = {one.id: _answer(one) for one in asked.fields}
    return {name: value for name, value in given.items() if value is not None}


def _of_file(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            misused(f"{file} is larger than what is taken")
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        misused(f"{file} cannot be read: {error}")
    if not isinstance(found, dict):
        misused(f"{file} holds no JSON object")
    return found


def _answer(field: gateway_pb2.CollectDataField) -> Any:
    prompt = Prompt(quiet=False)
    if field.type == gateway_pb2.COLLECT_DATA_FIELD_TYPE_CHECKBOX:
        return prompt.sure(field.name, usual=False)
    is_date = field.type == gateway_pb2.COLLECT_DATA_FIELD_TYPE_DATE
    question = f"{field.name} (YYYY-MM-DD)" if is_date else field.name
    text = prompt.text(question, "--data", None, None if field.required else "")
    return text or None
