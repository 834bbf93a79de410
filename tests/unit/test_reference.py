"""The references tell what the code does, and are written again when it does something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from florin_server.boot import demo_accounts
from florin_server.config import Settings
from florin_server.domain.errors import REGISTRY
from pydantic import BaseModel, Field

from tools.reference import __main__ as reference
from tools.reference import settings
from tools.reference.markdown import sentence, table
from tools.reference.units import unit_of


def test_the_references_are_current():
    assert reference.stale() == [], "run `make gen`"


def test_a_changed_or_foreign_reference_is_noticed(tmp_path):
    reference.write(tmp_path)
    assert reference.stale(tmp_path) == []
    errors = tmp_path / "errors.md"
    errors.write_text(errors.read_text().replace("410", "409"))
    (tmp_path / "old.md").write_text("# Old")
    (tmp_path / "commands.md").unlink()
    assert reference.stale(tmp_path) == ["commands.md", "errors.md", "old.md"]
    reference.write(tmp_path)
    assert reference.stale(tmp_path) == []


def test_every_error_code_is_told_with_its_meaning():
    rows = [line.split(" | ") for line in reference.documents()["errors.md"].splitlines()]
    told = {row[0].strip("| `*"): row[-1] for row in rows if len(row) == 5}
    assert set(REGISTRY) <= told.keys()
    assert all(meaning.strip(" |") for meaning in told.values())


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every table that can be written where an annotation stands, with those in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_in(field.annotation)
    for inner in get_args(annotation):
        yield from models_in(inner)


def test_every_setting_has_a_reason_and_every_table_is_told():
    known = set(models_in(Settings))
    assert known == {Settings, *settings.NAMED.values(), *settings.LISTED.values()}
    for model in known:
        assert [why for _, _, why in settings.described(model) if not why.strip()] == []


def test_every_variable_is_told():
    text = reference.documents()["settings.md"]
    told = set(re.findall(r"^\|.*`(FLORIN_\w+)` \|", text, re.MULTILINE))
    wanted = {f"FLORIN_{name.upper()}" for name in Settings.model_fields.keys() - settings.NAMED}
    for table_name, model in settings.NAMED.items():
        wanted |= {f"FLORIN_{table_name}__{name}".upper() for name in model.model_fields}
    assert told == wanted | demo_accounts.VARIABLES.keys()


def test_what_demo_env_may_hold_is_told():
    source = Path(demo_accounts.__file__).read_text()
    written = source[source.index("def _credentials") :]
    assert set(re.findall(r'"(FLORIN_\w+)":', written)) == demo_accounts.VARIABLES.keys()


def test_a_setting_without_a_reason_or_a_unit_is_refused():
    class Mute(BaseModel):
        told: int = Field(default=1, description="why")
        mute: int = 1

    with pytest.raises(LookupError, match="Mute.mute has no description"):
        list(settings.described(Mute))
    with pytest.raises(LookupError, match="Mute.told"):
        unit_of("Mute", "told")
    assert unit_of("Mute", "told_ms") == "milliseconds"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("a list", "A list."),
        ("gRPC port", "gRPC port."),
        ("`a` is", "`a` is."),
        ("A?", "A?"),
    ],
)
def test_sentences(text, told):
    assert sentence(text) == told


def test_a_bar_in_a_cell_does_not_end_it():
    assert table(("a",), [("b | c",)]).splitlines()[-1] == "| b \\| c |"
