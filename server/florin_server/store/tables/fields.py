"""What tables are made of: kinds of columns, constraints, and the collection of all tables."""

from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, Index, LargeBinary, MetaData, Text, text
from sqlmodel import Field, SQLModel

from florin_server.store.engine.columns import U256, Json, OneOf

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def text_(*, key: bool = False, default: str | None = None) -> Any:
    """A text; a `default` is what rows have that are older than the column."""
    return Field(sa_type=Text, primary_key=key, sa_column_kwargs={"server_default": default})


def id_of(table: str, *, key: bool = False) -> Any:
    """The id of a row of another table, which has to be there."""
    return Field(sa_type=Text, primary_key=key, foreign_key=f"{table}.id")


def number(*, key: bool = False, default: str | None = None) -> Any:
    """An integer of up to 64 bits; a `default` is what rows have that are older than the column."""
    given = {"autoincrement": False, "server_default": default}
    return Field(sa_type=BigInteger, primary_key=key, sa_column_kwargs=given)


def bytes_() -> Any:
    """Bytes."""
    return Field(sa_type=LargeBinary)


def amount(*, default: str | None = None) -> Any:
    """An amount in minor units; a `default` is what rows have that are older than the column."""
    return Field(sa_type=U256, sa_column_kwargs={"server_default": default})


def json_() -> Any:
    """A JSON value."""
    return Field(sa_type=Json)


def one_of(kind: type[StrEnum]) -> Any:
    """A value of an enumeration."""
    return Field(sa_type=OneOf(kind))


def only(column: str, kind: type[StrEnum]) -> CheckConstraint:
    """Nothing else than the values of an enumeration may be in a column."""
    values = ", ".join(f"'{member.value}'" for member in kind)
    return CheckConstraint(f"{column} IN ({values})", name=column)


def partial(name: str, predicate: str, *columns: str, unique: bool = False) -> Index:
    """An index of the rows that a predicate is true for."""
    where = text(predicate)
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# a table that is always reached by its key needs no second tree for rowids
BY_KEY = {"sqlite_with_rowid": False}


class Base(SQLModel):
    """A row of one of our tables."""

    metadata: ClassVar[MetaData] = METADATA
