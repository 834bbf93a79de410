"""Column types: what SQLite and PostgreSQL keep, and what the service sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Dialect, Numeric, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NullType, TypeEngine

U256_MAX = 2**256 - 1
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class U256(TypeDecorator[int]):
    """An amount in minor units, 0 to 2**256 - 1: digits on SQLite, NUMERIC(78, 0) elsewhere."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite's own integers end at 64 bits."""
        kept = Text() if dialect.name == "sqlite" else Numeric(78, 0)
        return dialect.type_descriptor(kept)

    def bind_processor(self, dialect: Dialect) -> Callable[[int | None], Any]:
        """Refuses what a 256-bit word cannot hold."""
        kept: Callable[[int], Any] = str if dialect.name == "sqlite" else int

        def encode(value: int | None) -> Any:
            if value is None:
                return None
            if not 0 <= value <= U256_MAX:
                raise ValueError("amount is not an unsigned 256-bit number")
            return kept(value)

        return encode

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], int | None]:  # noqa: ARG002
        """Always int."""
        return lambda value: None if value is None else int(value)


class OneOf(TypeDecorator[StrEnum]):
    """A value of an enumeration, kept as its text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Bare text; KeyError for what is no member."""
        texts: dict[Any, Any] = {None: None, **{member: member.value for member in self.kind}}
        return texts.__getitem__

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """The member."""
        members: dict[Any, Any] = {None: None, **{member.value: member for member in self.kind}}
        return members.__getitem__


class Json(TypeDecorator[Any]):
    """A JSON value of our own making, kept as text so that its bytes never change."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """None stays NULL."""
        return None if value is None else _JSON.encode(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """NULL stays None."""
        return None if value is None else json.loads(value)


class Words(TypeDecorator[frozenset[str]]):
    """A set of words without blanks, kept in order with a blank between."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Equal sets are equal texts; None is a parameter that was not given."""
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> frozenset[str]:  # noqa: ARG002
        """The set."""
        return frozenset(value.split())


class TextList(TypeDecorator[Sequence[str]]):
    """Texts that are looked up at once; a parameter, never a column."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite takes the list as one JSON text."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(ARRAY(Text()))

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> Any:
        """Sorted, so that whoever locks rows locks them in the same order."""
        texts = sorted(value or ())
        return orjson.dumps(texts).decode() if dialect.name == "sqlite" else texts


class by_size(ColumnElement[Any]):  # noqa: N801  (reads as the SQL that it is)
    """An amount in the form that sorts as the number does; see `size_of`."""

    inherit_cache = False

    def __init__(self, amount: ColumnElement[Any]) -> None:
        self.type = NullType()
        self.amount = amount


def size_of(value: int) -> str:
    """What `by_size` makes of a value on SQLite: the number of digits, then the digits."""
    return f"{len(str(value)):02}{value}"


@compiles(by_size, "sqlite")
def _by_size_sqlite(element: by_size, compiler: SQLCompiler, **kw: Any) -> str:
    digits = compiler.process(element.amount, **kw)
    return f"substr('0' || length({digits}), -2) || {digits}"


@compiles(by_size, "postgresql")
def _by_size_postgresql(element: by_size, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.amount, **kw)
