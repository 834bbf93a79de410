"""The tables that the statements of a migration create and lock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NEW_TABLE: Final = re.compile(r"CREATE TABLE (\w+)")
# DROP INDEX names no table, and PostgreSQL locks it: such migrations also change the table
_CHANGED: Final = re.compile(
    r"(?:ALTER TABLE|DROP TABLE|UPDATE|INSERT INTO|DELETE FROM) (\w+)"
    r"|CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON (\w+)"
)
_REFERENCE: Final = re.compile(r" REFERENCES (\w+)")


def list_changed_tables(statements: Sequence[str]) -> list[str]:
    """Return the existing tables that the statements lock, by name."""
    matches = [match for text in statements if (match := _CHANGED.match(text))]
    changed = {match[1] or match[2] for match in matches}
    return sorted(changed.union(*map(_REFERENCE.findall, statements)) - find_new_tables(statements))


def find_new_tables(statements: Sequence[str]) -> set[str]:
    """Return the tables that the statements create, by name."""
    return {match[1] for text in statements if (match := _NEW_TABLE.match(text))}
