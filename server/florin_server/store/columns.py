"""Column types: what SQLite and PostgreSQL keep, and what the service sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Dialect, Numeric, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine

U256_MAX = 2**256 - 1


class U256(TypeDecorator[int]):
    """An amount in minor units, 0 to 2**256 - 1: digits on SQLite, NUMERIC(78, 0) elsewhere."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite's own integers end at 64 bits."""
        kept = Text() if dialect.name == "sqlite" else Numeric(78, 0)
        return dialect.type_descriptor(kept)

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        """Refuses what a 256-bit word cannot hold."""
        if value is None:
            return None
        if not 0 <= value <= U256_MAX:
            raise ValueError("amount is not an unsigned 256-bit number")
        return str(value) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:  # noqa: ARG002
        """Always int."""
        return None if value is None else int(value)


class OneOf(TypeDecorator[StrEnum]):
    """A value of an enumeration, kept as its text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind
        self._members: dict[Any, StrEnum | None] = {None: None, **{m.value: m for m in kind}}

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Bare text."""
        return None if value is None else self.kind(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002
        """The member."""
        return self._members[value]


class Json(TypeDecorator[Any]):
    """A JSON value of our own making, kept as text so that its bytes never change."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """None stays NULL."""
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """NULL stays None."""
        return None if value is None else json.loads(value)


class Words(TypeDecorator[frozenset[str]]):
    """A set of words without blanks, kept in order with a blank between."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Equal sets are equal texts."""
        return " ".join(sorted(value or ()))

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
        return json.dumps(texts) if dialect.name == "sqlite" else texts
