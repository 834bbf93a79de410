"""SQL for text search and for sums of many amounts, in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Integer, Numeric, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from florin_server.db.engine.columns import to_sortable_text

# SQLite adds 64-bit numbers: amounts are split into parts of this many digits, whose sums stay
# below 2**63 for nine billion rows
_PART_DIGITS = 9
_PART_LIMIT: int = 10**_PART_DIGITS
# amounts of up to 27 digits (a billion tokens of 18 decimals); larger amounts are added singly
_PARTS = 3
_NATIVE_DIGITS = _PARTS * _PART_DIGITS


class text_position(ColumnElement[int]):  # noqa: N801  (reads as the SQL that it is)
    """The position of a text in another, from 1; 0 if absent. No character is special."""

    inherit_cache = False

    def __init__(self, part: ColumnElement[Any], text: ColumnElement[Any]) -> None:
        self.type = Integer()
        self.part = part
        self.whole = text


class without_index(ColumnElement[Any]):  # noqa: N801
    """A value for which no index is used."""

    inherit_cache = False

    def __init__(self, value: ColumnElement[Any]) -> None:
        self.type = value.type
        self.value = value


class fast_sum_u256(ColumnElement[int]):  # noqa: N801
    """The exact sum of amounts; unlike `exact_sum`, it makes no call per row on SQLite."""

    inherit_cache = False

    def __init__(self, amounts: ColumnElement[Any]) -> None:
        self.type = _FastSumType()
        self.amounts = amounts


class SortableAmount(TypeDecorator[int]):
    """An amount to compare with `sortable_amount`; a parameter, never a column."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Compare amounts directly where they are numbers."""
        column_type = Text() if dialect.name == "sqlite" else Numeric(78, 0)
        return dialect.type_descriptor(column_type)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Return text in the order of the numbers, or the number."""
        return to_sortable_text if dialect.name == "sqlite" else int


class _FastSumType(TypeDecorator[int]):
    impl = Text
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], int]:  # noqa: ARG002
        if dialect.name != "sqlite":
            return lambda total: int(total or 0)

        def add_up(parts: str) -> int:
            *sums, rest = map(int, parts.split())
            for n, part in enumerate(sums):
                rest += part * _PART_LIMIT**n
            return rest

        return add_up


@compiles(text_position, "sqlite")
def _text_position_sqlite(element: text_position, compiler: SQLCompiler, **kw: Any) -> str:
    part, total = compiler.process(element.part, **kw), compiler.process(element.whole, **kw)
    return f"(instr({total}, {part}))"


@compiles(text_position, "postgresql")
def _text_position_postgresql(element: text_position, compiler: SQLCompiler, **kw: Any) -> str:
    part, total = compiler.process(element.part, **kw), compiler.process(element.whole, **kw)
    return f"(strpos({total}, {part}))"


@compiles(without_index)
def _without_index(element: without_index, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(+({compiler.process(element.value, **kw)}))"


@compiles(fast_sum_u256, "sqlite")
def _fast_sum_u256_sqlite(element: fast_sum_u256, compiler: SQLCompiler, **kw: Any) -> str:
    digits = compiler.process(element.amounts, **kw)
    short = f"FILTER (WHERE length({digits}) <= {_NATIVE_DIGITS})"
    long = f"FILTER (WHERE length({digits}) > {_NATIVE_DIGITS})"
    parts = [
        # a part that starts before the text contains only the digits that exist
        f"coalesce(sum(CAST(substr({digits}, -{end}, {_PART_DIGITS}) AS INTEGER)) {short}, 0)"
        for end in range(_PART_DIGITS, _NATIVE_DIGITS + 1, _PART_DIGITS)
    ]
    rest = f"coalesce(exact_sum({digits}) {long}, '0')"
    return " || ' ' || ".join([*parts, rest])


@compiles(fast_sum_u256, "postgresql")
def _fast_sum_u256_postgresql(element: fast_sum_u256, compiler: SQLCompiler, **kw: Any) -> str:
    return f"sum({compiler.process(element.amounts, **kw)})"
