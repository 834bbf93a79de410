"""Values of a statement's rows: the one place where entities are built by position.

A row becomes a dataclass or a named tuple whose fields are the selected columns, in their order, or
the value of its only column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import starmap
from typing import Any, TypeAlias

RowReader: TypeAlias = Callable[[Iterable[Sequence[Any]]], list[Any]]
"""Builds the values of rows."""


def list_field_names(row_type: type[Any]) -> tuple[str, ...] | None:
    """Return the fields of a dataclass or a named tuple, in order; None for any other type."""
    if is_dataclass(row_type):
        return tuple(field.name for field in fields(row_type) if field.init)
    names: tuple[str, ...] | None = getattr(row_type, "_fields", None)
    return names


def make_row_reader(
    names: Sequence[str], row_type: type[Any], parts: Mapping[str, type[Any]]
) -> RowReader:
    """Return the reader of rows with these columns.

    `parts` are the fields that are themselves dataclasses or named tuples: each takes the columns
    of its own fields. Raise TypeError if the columns are not exactly the fields, in their order.
    """
    field_names = list_field_names(row_type)
    if field_names is None and row_type is tuple:
        return lambda rows: list(map(tuple, rows))
    if field_names is None:
        if len(names) != 1 or parts:
            raise TypeError(f"one column was expected for {row_type}, not {', '.join(names)}")
        return lambda rows: [value for (value,) in rows]
    if unknown := parts.keys() - set(field_names):
        raise TypeError(f"{row_type.__name__} has no field {', '.join(sorted(unknown))}")
    expected = [column for name in field_names for column in _list_columns(name, parts)]
    if expected != list(names):
        raise TypeError(
            f"{row_type.__name__} has the fields {', '.join(expected)}, "
            f"but the columns are {', '.join(names)}"
        )
    if parts:
        return _make_nested_reader(field_names, row_type, parts)
    if issubclass(row_type, tuple):
        # without a frame of Python for each row; the number of columns was checked above
        build_tuple = partial(tuple.__new__, row_type)
        return lambda rows: list(map(build_tuple, rows))
    return lambda rows: list(starmap(row_type, rows))


def _list_columns(name: str, parts: Mapping[str, type[Any]]) -> tuple[str, ...]:
    if name not in parts:
        return (name,)
    columns = list_field_names(parts[name])
    if columns is None:
        raise TypeError(f"{parts[name]} is neither a dataclass nor a named tuple")
    return columns


def _make_nested_reader(
    field_names: Sequence[str], row_type: type[Any], parts: Mapping[str, type[Any]]
) -> RowReader:
    steps: list[tuple[type[Any] | None, int, int]] = []
    start = 0
    for name in field_names:
        end = start + len(_list_columns(name, parts))
        steps.append((parts.get(name), start, end))
        start = end

    def build(row: Sequence[Any]) -> Any:
        return row_type(
            *(row[first] if part is None else part(*row[first:last]) for part, first, last in steps)
        )

    return lambda rows: [build(tuple(row)) for row in rows]
