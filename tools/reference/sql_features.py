"""The features of SQL that Florin's statements use, read from their texts."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import florin_server
from florin_server.db.engine import schema
from florin_server.db.engine.query import POSTGRESQL, CoreStatement

# texts and quoted names have no keywords
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")
_KEYWORD = re.compile(r"\b[A-Z]{2,}\b")
_FUNCTION = re.compile(r"(?<!INTO )\b([a-z][a-z_0-9]*)\(")
_TYPE = re.compile(r"::([A-Z]+(?:\[\])?)|\bAS ([A-Z]{3,})\)")


@dataclass(frozen=True)
class SqlFeatures:
    """Keywords, functions and types of casts; functions are lower-case, the others upper-case."""

    keywords: frozenset[str]
    functions: frozenset[str]
    types: frozenset[str]

    def list_missing(self, text: str) -> list[str]:
        """Return the features of a text that are not among these."""
        used = find_features([text])
        return sorted(
            (used.keywords - self.keywords)
            | {f"{name}()" for name in used.functions - self.functions}
            | (used.types - self.types)
        )


def find_features(texts: Iterable[str]) -> SqlFeatures:
    """Return what the texts of statements use."""
    plain = [_QUOTED.sub("''", text) for text in texts]
    return SqlFeatures(
        frozenset(word for text in plain for word in _KEYWORD.findall(text)),
        frozenset(name for text in plain for name in _FUNCTION.findall(text)),
        frozenset(first or second for text in plain for first, second in _TYPE.findall(text)),
    )


@cache
def list_statements() -> tuple[str, ...]:
    """Return the text of every statement of the store on PostgreSQL."""
    for module in pkgutil.walk_packages(florin_server.__path__, florin_server.__name__ + "."):
        # migrations are no modules: a tool runs them
        if ".migrations" not in module.name:
            importlib.import_module(module.name)
    return tuple(sorted({statement.postgres.sql for statement in _iterate_statements()}))


def list_definitions() -> tuple[str, ...]:
    """Return the statements that create the tables."""
    return (schema.VERSION_TABLE, *schema.list_definitions(POSTGRESQL))


def _iterate_statements() -> Iterator[CoreStatement]:
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{florin_server.__name__}."):
            values = vars(module).values()
            yield from (value for value in values if isinstance(value, CoreStatement))
