"""Test that the reference pages match the code, and are rewritten when it changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from florin_sandbox import demo_accounts
from florin_server.domain.errors import ERROR_SPECS
from florin_server.settings import Settings
from pydantic import BaseModel, Field

from tools.reference import __main__ as reference
from tools.reference import settings
from tools.reference.markdown import format_sentence, render_table
from tools.reference.units import get_unit


def test_the_references_are_current():
    assert reference.list_stale_documents() == [], "run `make gen`"


def test_a_changed_or_foreign_reference_is_noticed(tmp_path):
    reference.write_documents(tmp_path)
    assert reference.list_stale_documents(tmp_path) == []
    errors = tmp_path / "errors.md"
    errors.write_text(errors.read_text().replace("410", "409"))
    (tmp_path / "old.md").write_text("# Old")
    (tmp_path / "commands.md").unlink()
    assert reference.list_stale_documents(tmp_path) == ["commands.md", "errors.md", "old.md"]
    reference.write_documents(tmp_path)
    assert reference.list_stale_documents(tmp_path) == []


def test_error_reference_lists_every_code_with_its_meaning():
    rows = [line.split(" | ") for line in reference.render_documents()["errors.md"].splitlines()]
    result = {row[0].strip("| `*"): row[-1] for row in rows if len(row) == 5}
    assert set(ERROR_SPECS) <= result.keys()
    assert all(meaning.strip(" |") for meaning in result.values())


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield every settings table in an annotation, including nested tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_in(field.annotation)
    for inner in get_args(annotation):
        yield from models_in(inner)


def test_every_setting_is_described_and_every_table_is_listed():
    existing = set(models_in(Settings))
    assert existing == {Settings, *settings.NAMED_TABLES.values(), *settings.LISTED_TABLES.values()}
    for model in existing:
        assert [why for _, _, why in settings.list_described_fields(model) if not why.strip()] == []


def test_settings_reference_lists_every_variable():
    text = reference.render_documents()["settings.md"]
    result = set(re.findall(r"^\|.*`(FLORIN_\w+)` \|", text, re.MULTILINE))
    expected = {
        f"FLORIN_{name.upper()}" for name in Settings.model_fields.keys() - settings.NAMED_TABLES
    }
    for table_name, model in settings.NAMED_TABLES.items():
        expected |= {f"FLORIN_{table_name}__{name}".upper() for name in model.model_fields}
    assert result == expected | demo_accounts.DEMO_VARIABLES.keys()


def test_every_variable_in_demo_env_is_described():
    source = Path(demo_accounts.__file__).read_text()
    written = source[source.index("def _format_credentials") :]
    assert set(re.findall(r'"(FLORIN_\w+)":', written)) == demo_accounts.DEMO_VARIABLES.keys()


def test_a_setting_without_a_reason_or_a_unit_is_refused():
    class Mute(BaseModel):
        described: int = Field(default=1, description="why")
        mute: int = 1

    with pytest.raises(LookupError, match="Mute.mute has no description"):
        list(settings.list_described_fields(Mute))
    with pytest.raises(LookupError, match="Mute.described"):
        get_unit("Mute", "described")
    assert get_unit("Mute", "described_ms") == "milliseconds"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("a list", "A list."),
        ("gRPC port", "gRPC port."),
        ("`a` is", "`a` is."),
        ("A?", "A?"),
    ],
)
def test_sentences(text, expected):
    assert format_sentence(text) == expected


def test_a_bar_in_a_cell_does_not_end_it():
    assert render_table(("a",), [("b | c",)]).splitlines()[-1] == "| b \\| c |"
