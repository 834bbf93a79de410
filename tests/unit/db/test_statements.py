"""Test that statements return typed rows, and refuse columns that are not the fields."""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import florin_server
import pytest
from florin_server.db.engine.query import Command, Statement, run
from florin_server.db.engine.rows import list_field_names
from florin_server.db.tables.fields import TableRow
from sqlalchemy import Column, Select, column, delete, func, select, table

_TABLE = table("t", column("a"), column("b"), column("c"))


class Pair(NamedTuple):
    a: int
    b: str


@dataclass(frozen=True)
class Entity:
    a: int
    b: str


class Nested(NamedTuple):
    c: int
    entity: Entity


def read(operation: Any, rows: list[tuple[Any, ...]]) -> Any:
    return run(operation, lambda query: query.statement.sqlite.read_rows(rows))


@pytest.mark.parametrize("row_type", [Pair, Entity])
def test_row_is_the_type_with_the_columns_as_fields(row_type):
    statement = Statement(select(_TABLE.c.a, _TABLE.c.b), row_type)
    assert read(statement.all(), [(1, "x"), (2, "y")]) == [row_type(1, "x"), row_type(2, "y")]
    assert type(read(statement.first(), [(1, "x")])) is row_type
    assert read(statement.first(), []) is None


def test_part_takes_the_columns_of_its_own_fields():
    statement = Statement(select(_TABLE.c.c, _TABLE.c.a, _TABLE.c.b), Nested, entity=Entity)
    assert read(statement.single(), [(3, 1, "x")]) == Nested(3, Entity(1, "x"))


@pytest.mark.parametrize("rows", [[], [(1,), (2,)]])
def test_one_raises_for_another_number_of_rows(rows):
    with pytest.raises(LookupError):
        read(Statement(select(func.count()), int).single(), rows)


def test_scalar_is_the_value_of_its_column():
    assert read(Statement(select(func.count()), int).single(), [(4,)]) == 4
    assert read(Statement.nullable(select(_TABLE.c.a), int).first(), [(None,)]) is None
    assert read(Statement(select(_TABLE.c.a), int).any(), [(0,)]) is True


@pytest.mark.parametrize(
    ("names", "row_type"),
    [("a", Pair), ("abc", Pair), ("ac", Pair), ("ba", Entity), ("ab", int)],
)
def test_statement_refuses_columns_that_are_not_the_fields(names, row_type):
    with pytest.raises(TypeError):
        Statement(select(*(_TABLE.c[name] for name in names)), row_type)


def test_command_refuses_rows():
    with pytest.raises(TypeError):
        Command(delete(_TABLE).returning(_TABLE.c.a))


def stored_types() -> Mapping[tuple[str, str], Any]:
    """Return the declared type of every column, by table and name."""
    return {
        (row.__table__.name, name): info.annotation
        for row in TableRow.__subclasses__()
        for name, info in row.model_fields.items()
    }


def statements() -> Iterator[tuple[str, Statement[Any]]]:
    for module_info in pkgutil.walk_packages(florin_server.__path__, "florin_server."):
        if ".migrations" not in module_info.name:
            for name, value in vars(importlib.import_module(module_info.name)).items():
                if isinstance(value, Statement):
                    yield f"{module_info.name}.{name}", value


def field_types(statement: Statement[Any]) -> list[Any]:
    """Return the type of each column according to the type of the rows."""
    names = list_field_names(statement.row_type)
    if names is None:
        return [statement.row_type]
    hints, kinds = typing.get_type_hints(statement.row_type), []
    for name in names:
        if (part := statement.parts.get(name)) is None:
            kinds.append(hints[name])
        else:
            assert hints[name] is part
            kinds += [typing.get_type_hints(part)[inner] for inner in list_field_names(part)]
    return kinds


def without_none(kind: Any) -> Any:
    args = [arg for arg in typing.get_args(kind) if arg is not types.NoneType]
    is_union = typing.get_origin(kind) in {typing.Union, types.UnionType}
    kind = args[0] if is_union and len(args) == 1 else kind
    return typing.get_origin(kind) or kind


def test_fields_have_the_types_of_their_columns():
    """`None` is left out: a condition can exclude it, and an outer join can add it."""
    declared, wrong, checked = stored_types(), [], 0
    for name, statement in statements():
        clause = statement.clause
        columns = clause.inner_columns if isinstance(clause, Select) else clause.exported_columns
        for col, kind in zip(columns, field_types(statement), strict=True):
            stored = (
                declared.get((getattr(col.table, "name", ""), col.name))
                if isinstance(col, Column)
                else None
            )
            if stored is None:
                continue
            checked += 1
            stored_kind, field_kind = without_none(stored), without_none(kind)
            # an entity can promise less than the column has
            if not (stored_kind is field_kind or issubclass(stored_kind, field_kind)):
                wrong.append((name, col.name, stored, kind))
    assert checked > 500
    assert wrong == []
