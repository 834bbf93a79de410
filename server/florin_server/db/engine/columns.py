"""Column types: the stored form on SQLite and PostgreSQL, and the service's form."""

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
        """Store text on SQLite, whose integers end at 64 bits."""
        column_type = Text() if dialect.name == "sqlite" else Numeric(78, 0)
        return dialect.type_descriptor(column_type)

    def bind_processor(self, dialect: Dialect) -> Callable[[int | None], Any]:
        """Refuse values that exceed a 256-bit word."""
        to_stored: Callable[[int], Any] = str if dialect.name == "sqlite" else int

        def encode(value: int | None) -> Any:
            if value is None:
                return None
            if not 0 <= value <= U256_MAX:
                raise ValueError("amount is not an unsigned 256-bit number")
            return to_stored(value)

        return encode

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], int | None]:  # noqa: ARG002
        """Return int in all cases."""
        return lambda value: None if value is None else int(value)


class EnumText(TypeDecorator[StrEnum]):
    """A value of an enumeration, stored as its text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the bare text; raise KeyError for a value that is not a member."""
        texts: dict[Any, Any] = {None: None, **{member: member.value for member in self.kind}}
        return texts.__getitem__

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the member."""
        members: dict[Any, Any] = {None: None, **{member.value: member for member in self.kind}}
        return members.__getitem__


class JsonText(TypeDecorator[Any]):
    """A JSON value that Florin writes, stored as text so that its bytes never change."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Keep None as NULL."""
        return None if value is None else _JSON.encode(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Keep NULL as None."""
        return None if value is None else json.loads(value)


class JsonTexts(JsonText):
    """A tuple of texts, stored as a JSON array."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the tuple."""
        return tuple(super().process_result_value(value, dialect))


class JsonRows(TypeDecorator[tuple[Any, ...]]):
    """A tuple of named tuples, stored as a JSON array of arrays; none as NULL."""

    impl = Text
    cache_ok = True

    def __init__(self, row_type: type[Any]) -> None:
        super().__init__()
        self.row_type = row_type

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the JSON text."""
        return lambda rows: _JSON.encode(rows) if rows else None

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the rows."""
        row_type = self.row_type
        # integers beyond 64 bits stay exact
        return lambda text: () if text is None else tuple(row_type(*r) for r in json.loads(text))


class JsonPairs(TypeDecorator[tuple[tuple[str, str], ...]]):
    """Texts by their names, as sorted pairs, stored as a JSON object; none as NULL."""

    impl = Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the JSON text."""
        return lambda pairs: _JSON.encode(dict(pairs)) if pairs else None

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the pairs."""
        return lambda text: () if text is None else tuple(json.loads(text).items())


class WordSet(TypeDecorator[frozenset[str]]):
    """A set of words without blanks, stored sorted and separated by blanks."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Store equal sets as equal texts; None is an omitted parameter."""
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> frozenset[str]:  # noqa: ARG002
        """Return the set."""
        return frozenset(value.split())


class TextList(TypeDecorator[Sequence[str]]):
    """Texts for one lookup; a parameter, never a column."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Pass the list as one JSON text on SQLite."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(ARRAY(Text()))

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> Any:
        """Sort the texts, so that all lockers lock rows in one order."""
        texts = sorted(value or ())
        return orjson.dumps(texts).decode() if dialect.name == "sqlite" else texts


class sortable_amount(ColumnElement[Any]):  # noqa: N801  (reads as the SQL that it is)
    """An amount in a form that sorts like the number."""

    inherit_cache = False

    def __init__(self, amount: ColumnElement[Any]) -> None:
        self.type = NullType()
        self.amount = amount


def to_sortable_text(value: int) -> str:
    """Return `sortable_amount` of a value on SQLite: the number of digits, then the digits."""
    return f"{len(str(value)):02}{value}"


@compiles(sortable_amount, "sqlite")
def _sortable_amount_sqlite(element: sortable_amount, compiler: SQLCompiler, **kw: Any) -> str:
    digits = compiler.process(element.amount, **kw)
    return f"substr('0' || length({digits}), -2) || {digits}"


@compiles(sortable_amount, "postgresql")
def _sortable_amount_postgresql(element: sortable_amount, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.amount, **kw)
