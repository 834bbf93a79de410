"""The building blocks of tables: kinds of columns, constraints, and the metadata of all tables."""

from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, Index, LargeBinary, MetaData, Text, text
from sqlmodel import Field, SQLModel

from florin_server.db.engine.columns import U256, EnumText, JsonText

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def text_column(*, key: bool = False, default: str | None = None) -> Any:
    """Return a text column; rows older than the column have the `default`."""
    return Field(sa_type=Text, primary_key=key, sa_column_kwargs={"server_default": default})


def foreign_id_column(table: str, *, key: bool = False) -> Any:
    """Return a column for the id of an existing row of another table."""
    return Field(sa_type=Text, primary_key=key, foreign_key=f"{table}.id")


def integer_column(*, key: bool = False, default: str | None = None) -> Any:
    """Return an integer column of up to 64 bits; rows older than the column have the `default`."""
    column_args = {"autoincrement": False, "server_default": default}
    return Field(sa_type=BigInteger, primary_key=key, sa_column_kwargs=column_args)


def bytes_column() -> Any:
    """Return a column for bytes."""
    return Field(sa_type=LargeBinary)


def amount_column(*, default: str | None = None) -> Any:
    """Return a column for minor units; rows older than the column have the `default`."""
    return Field(sa_type=U256, sa_column_kwargs={"server_default": default})


def json_column() -> Any:
    """Return a column for a JSON value."""
    return Field(sa_type=JsonText)


def enum_column(kind: type[StrEnum]) -> Any:
    """Return a column for a value of an enumeration."""
    return Field(sa_type=EnumText(kind))


def check_enum(column: str, kind: type[StrEnum]) -> CheckConstraint:
    """Return the constraint that a column contains only values of an enumeration."""
    values = ", ".join(f"'{member.value}'" for member in kind)
    return CheckConstraint(f"{column} IN ({values})", name=column)


def partial_index(name: str, predicate: str, *columns: str, unique: bool = False) -> Index:
    """Return an index of the rows for which a predicate is true."""
    where = text(predicate)
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# a table that is always reached by its key needs no second tree for rowids
WITHOUT_ROWID = {"sqlite_with_rowid": False}


class TableRow(SQLModel):
    """A row of one of our tables."""

    metadata: ClassVar[MetaData] = METADATA
