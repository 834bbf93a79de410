"""Operations without I/O: they yield statements and are sent rows.

An operation is a generator: it yields a `Query`, is sent the rows, and returns its result. So the
same operation runs inside a group on SQLite's writer and on connections to PostgreSQL. It can be
begun anew, as PostgreSQL wants of transactions that met others. Statements are SQLAlchemy Core,
compiled once to the driver's text, and cost no SQLAlchemy from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, cached_property, wraps
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Dialect, Select, Table, or_
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import Insert, asyncpg
from sqlalchemy.dialects.postgresql import insert as _insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.expression import BindParameter, bindparam

from florin_server.store.engine.columns import TextList

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object]
Clause: TypeAlias = Select[Any] | UpdateBase
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

SQLITE = sqlite.dialect()
POSTGRESQL: Dialect = asyncpg.dialect()  # type: ignore[no-untyped-call]


class StoreError(Exception):
    """The store could not do what it was asked; nothing of it was kept.

    `passes` tells that this is a state of the world, which passes, and no fault of what was asked.
    """

    passes: ClassVar[bool] = False


class StoreUnavailable(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """The store does not work at the moment: its disk, its memory, or it is being closed."""

    passes = True


class Query(NamedTuple):
    """A statement with its values, by name or as attributes of an object.

    With `many` it stands for one statement for each set of values, and has no answer.
    """

    statement: Statement
    params: Params | object
    many: Sequence[Params] | None = None


Op: TypeAlias = Generator[Query, list[Row], T]


class Operation(Generic[T_co]):
    """What is to be done, and can be begun anew: some engines have to do it more than once.

    So it may change nothing but rows, and iterate its arguments again. `yield from` runs it as a
    part of another one. `snapshot` tells that its questions have to be answered from one state;
    otherwise each sees what was committed before it. One that is `apart` shares no transaction.
    """

    __slots__ = ("_args", "_kwargs", "apart", "snapshot", "steps")

    def __init__(
        self,
        steps: Callable[..., Op[T_co]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        snapshot: bool = False,
        apart: bool = False,
    ) -> None:
        self.steps = steps
        self.snapshot = snapshot
        self.apart = apart or snapshot
        self._args = args
        self._kwargs = kwargs

    def __iter__(self) -> Op[T_co]:
        return self.steps(*self._args, **self._kwargs)


def operation(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """Makes an operation of a generator function."""

    @wraps(steps)
    def made(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs)

    return made


def on_snapshot(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """The same of one that writes what many rows come to, and cannot lock them all."""

    @wraps(steps)
    def made(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs, snapshot=True)

    return made


def apart(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """The same of one that may have to wait for other processes, which no other one should."""

    @wraps(steps)
    def made(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs, apart=True)

    return made


class Compiled:
    """The text of a statement in one dialect, and how its values and rows are converted."""

    def __init__(self, clause: Clause, dialect: Dialect) -> None:
        compiled = clause.compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError(f"not a statement: {clause}")
        self.sql = str(compiled)
        names = list(compiled.positiontup or ())
        binds = [compiled.binds[name] for name in names]
        self._constants = {n: b.value for n, b in zip(names, binds, strict=True) if not b.required}
        self._pick = _picker(itemgetter, names)
        self._pick_attributes = _picker(attrgetter, names)
        self._encoders = _converters(
            [b.type.dialect_impl(dialect).bind_processor(dialect) for b in binds]
        )
        self._decoders = _converters(
            [t.dialect_impl(dialect).result_processor(dialect, None) for t in _row_types(clause)]
        )

    def values(self, params: Params | object) -> Sequence[object]:
        """The driver's values, in the order of the text."""
        if not isinstance(params, dict):
            picked = self._pick_attributes(params)
        elif self._constants:
            picked = self._pick({**self._constants, **params})
        else:
            picked = self._pick(params)
        if not self._encoders:
            return picked
        values = list(picked)
        for index, encode in self._encoders:
            values[index] = encode(values[index])
        return values

    def rows(self, rows: list[Row]) -> list[Row]:
        """The driver's rows as values of the columns' types."""
        if not self._decoders or not rows:
            return rows
        decoded = []
        for row in rows:
            values = list(row)
            for index, decode in self._decoders:
                values[index] = decode(values[index])
            decoded.append(tuple(values))
        return decoded


class Statement:
    """A Core statement, compiled when it first runs: a short command runs few of them."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause

    @cached_property
    def sqlite(self) -> Compiled:
        """The statement as SQLite takes it."""
        return Compiled(self.clause, SQLITE)

    @cached_property
    def postgres(self) -> Compiled:
        """The statement as asyncpg takes it."""
        return Compiled(self.clause, POSTGRESQL)

    def __call__(self, **params: object) -> Query:
        """The statement with one set of values."""
        return Query(self, params)

    def of(self, value: object) -> Query:
        """The statement with the values that an object has under the columns' names."""
        return Query(self, value)

    def many(self, rows: Sequence[Params]) -> Query:
        """The statement once for each set of values; answers no rows."""
        return Query(self, {}, rows)


def run(op: Operation[T], execute: Callable[[Query], list[Row]]) -> T:
    """Drives an operation to its end; what `execute` raises ends it."""
    steps = iter(op)
    try:
        query = next(steps)
        while True:
            query = steps.send(execute(query))
    except StopIteration as stop:
        result: T = stop.value
        return result


def record(value: Any) -> dict[str, object]:
    """A dataclass as the values of the columns that are named like its fields."""
    names, pick = _fields(cast("Hashable", type(value)))
    return dict(zip(names, pick(value), strict=True))


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], Sequence[object]]]:
    names = [found.name for found in fields(kind)]
    return tuple(names), _picker(attrgetter, names)


def columns(table: Table, kind: type[Any]) -> list[Column[Any]]:
    """The columns that are a dataclass, in the order of its fields."""
    return [table.c[found.name] for found in fields(kind)]


def insert(table: Table) -> Insert:
    """An INSERT of all columns with ON CONFLICT and RETURNING, the same text in both dialects."""
    return _insert(table)


def upsert(table: Table, *key: str) -> Insert:
    """An INSERT that changes the row with the same key if there is one; primary keys stay."""
    new = insert(table)
    rest = {
        column.name: new.excluded[column.name]
        for column in table.c
        if column.name not in key and not column.primary_key
    }
    return new.on_conflict_do_update(index_elements=list(key), set_=rest)


def param(name: str, type_: type[sqltypes.TypeEngine[Any]] | None = None) -> BindParameter[Any]:
    """A value that comes with each call."""
    return bindparam(name, type_=type_) if type_ else bindparam(name)


def any_of(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """`column IN (texts)`, in words that do not depend on how many texts there are."""
    return _AnyOf(column, name)


def one_of(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """A column is one of a few values that are known when the statement is written."""
    return or_(*(column == value for value in values))


class _AnyOf(ColumnElement[Any]):
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], name: str) -> None:
        # a Boolean would be compared with 1 on SQLite, which then uses no index
        self.type = sqltypes.NullType()
        self.column = column
        self.values = bindparam(name, type_=TextList)


class exact_sum(ColumnElement[Any]):  # noqa: N801  (reads as the SQL that it is)
    """The sum of amounts of up to 256 bits each, exact."""

    inherit_cache = False

    def __init__(self, amounts: ColumnElement[Any]) -> None:
        self.type = amounts.type
        self.amounts = amounts


class holds(ColumnElement[bool]):  # noqa: N801  (reads as the SQL that it is)
    """One text occurs in another, in any case; no character of it is special."""

    inherit_cache = False

    def __init__(self, text: ColumnElement[Any], part: ColumnElement[Any]) -> None:
        self.type = sqltypes.Boolean()
        self.text = text
        self.part = part


@compiles(_AnyOf, "sqlite")
def _any_of_sqlite(element: _AnyOf, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = (compiler.process(one, **kw) for one in (element.column, element.values))
    return f"({column} IN (SELECT value FROM json_each({values})))"  # noqa: S608


@compiles(_AnyOf, "postgresql")
def _any_of_postgresql(element: _AnyOf, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = (compiler.process(one, **kw) for one in (element.column, element.values))
    return f"({column} = ANY ({values}))"


@compiles(exact_sum, "sqlite")
def _exact_sum_sqlite(element: exact_sum, compiler: SQLCompiler, **kw: Any) -> str:
    return f"exact_sum({compiler.process(element.amounts, **kw)})"


@compiles(exact_sum, "postgresql")
def _exact_sum_postgresql(element: exact_sum, compiler: SQLCompiler, **kw: Any) -> str:
    return f"sum({compiler.process(element.amounts, **kw)})"


@compiles(holds, "sqlite")
def _holds_sqlite(element: holds, compiler: SQLCompiler, **kw: Any) -> str:
    # its own lower() knows ASCII only
    text, part = compiler.process(element.text, **kw), compiler.process(element.part, **kw)
    return f"instr(fold_case({text}), fold_case({part})) > 0"


@compiles(holds, "postgresql")
def _holds_postgresql(element: holds, compiler: SQLCompiler, **kw: Any) -> str:
    text, part = compiler.process(element.text, **kw), compiler.process(element.part, **kw)
    # as SQLite's function does, but for rarer letters whose case has two signs
    whole, looked_for = (f"replace(lower(normalize({one})), 'ß', 'ss')" for one in (text, part))
    return f"strpos({whole}, {looked_for}) > 0"


def _picker(getter: Callable[..., Any], names: list[str]) -> Callable[[Any], Sequence[object]]:
    """A getter of several names answers a tuple, but of one name the bare value."""
    if not names:
        return lambda _: ()
    found: Callable[[Any], Sequence[object]] = getter(*names)
    return found if len(names) > 1 else lambda params: (found(params),)


def _converters(found: Sequence[Callable[[Any], Any] | None]) -> list[tuple[int, Any]]:
    return [(index, convert) for index, convert in enumerate(found) if convert]


def _row_types(clause: Clause) -> list[sqltypes.TypeEngine[Any]]:
    return [found.type for found in clause.exported_columns]
