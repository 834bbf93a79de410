"""SQL that looks into texts and adds up many amounts, in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Integer, Numeric, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from florin_server.store.engine.columns import size_of

# SQLite adds up 64-bit numbers: amounts are cut into parts of so many digits, whose sums stay
# below 2**63 for nine thousand million rows
_PART_DIGITS = 9
_PART_LIMIT: int = 10**_PART_DIGITS
# amounts of up to 27 digits (a thousand million tokens of 18 decimals); the rest goes one by one
_PARTS = 3
_NATIVE_DIGITS = _PARTS * _PART_DIGITS


class place_of(ColumnElement[int]):  # noqa: N801  (reads as the SQL that it is)
    """Where a text begins in another one, from 1; 0 if nowhere. No character is special."""

    inherit_cache = False

    def __init__(self, part: ColumnElement[Any], whole: ColumnElement[Any]) -> None:
        self.type = Integer()
        self.part = part
        self.whole = whole


class plain(ColumnElement[Any]):  # noqa: N801
    """A value that no index is used for."""

    inherit_cache = False

    def __init__(self, value: ColumnElement[Any]) -> None:
        self.type = value.type
        self.value = value


class total_of(ColumnElement[int]):  # noqa: N801
    """The exact sum of amounts; unlike `exact_sum` it costs SQLite no call for each row."""

    inherit_cache = False

    def __init__(self, amounts: ColumnElement[Any]) -> None:
        self.type = _Total()
        self.amounts = amounts


class Size(TypeDecorator[int]):
    """An amount to compare with `by_size`; a parameter, never a column."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Where amounts are numbers they compare as they are."""
        kept = Text() if dialect.name == "sqlite" else Numeric(78, 0)
        return dialect.type_descriptor(kept)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Text in the order of the numbers, or the number."""
        return size_of if dialect.name == "sqlite" else int


class _Total(TypeDecorator[int]):
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


@compiles(place_of, "sqlite")
def _place_of_sqlite(element: place_of, compiler: SQLCompiler, **kw: Any) -> str:
    part, whole = compiler.process(element.part, **kw), compiler.process(element.whole, **kw)
    return f"(instr({whole}, {part}))"


@compiles(place_of, "postgresql")
def _place_of_postgresql(element: place_of, compiler: SQLCompiler, **kw: Any) -> str:
    part, whole = compiler.process(element.part, **kw), compiler.process(element.whole, **kw)
    return f"(strpos({whole}, {part}))"


@compiles(plain)
def _plain(element: plain, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(+({compiler.process(element.value, **kw)}))"


@compiles(total_of, "sqlite")
def _total_of_sqlite(element: total_of, compiler: SQLCompiler, **kw: Any) -> str:
    digits = compiler.process(element.amounts, **kw)
    short = f"FILTER (WHERE length({digits}) <= {_NATIVE_DIGITS})"
    long = f"FILTER (WHERE length({digits}) > {_NATIVE_DIGITS})"
    parts = [
        # a part that begins before the text holds what there is of it
        f"coalesce(sum(CAST(substr({digits}, -{end}, {_PART_DIGITS}) AS INTEGER)) {short}, 0)"
        for end in range(_PART_DIGITS, _NATIVE_DIGITS + 1, _PART_DIGITS)
    ]
    rest = f"coalesce(exact_sum({digits}) {long}, '0')"
    return " || ' ' || ".join([*parts, rest])


@compiles(total_of, "postgresql")
def _total_of_postgresql(element: total_of, compiler: SQLCompiler, **kw: Any) -> str:
    return f"sum({compiler.process(element.amounts, **kw)})"
