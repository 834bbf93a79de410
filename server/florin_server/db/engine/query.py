"""Operations without I/O: they yield statements and receive values.

An operation is a generator: it yields a `Query`, receives the values of its rows, and returns its
result. The same operation therefore runs in a group on SQLite's writer and on connections to
PostgreSQL. It can be retried, as PostgreSQL requires after conflicts. Statements are SQLAlchemy
Core, compiled once to the driver's text, so that later runs do not use SQLAlchemy.

`Statement` names the type of its rows, `Command` has none; `docs/store.md` teaches both.
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

from florin_server.db.engine.columns import TextList
from florin_server.db.engine.rows import RowReader, make_row_reader

Params: TypeAlias = Mapping[str, object]
Clause: TypeAlias = Select[*tuple[Any, ...]] | UpdateBase
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
P = ParamSpec("P")

SQLITE = sqlite.dialect()
POSTGRESQL: Dialect = asyncpg.dialect()  # type: ignore[no-untyped-call]


class StoreError(Exception):
    """The store could not do an operation; it kept nothing of it.

    `is_transient` is true for a temporary condition, and false for a fault of the operation.
    """

    is_transient: ClassVar[bool] = False


class StoreUnavailable(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """The store does not work at the moment: its disk or memory fails, or it is closing."""

    is_transient = True


class Query(NamedTuple):
    """A statement with its values, by name or as attributes of an object.

    With `param_rows` it runs once for each set of values, and returns no rows.
    """

    statement: CoreStatement
    params: Params | object
    param_rows: Sequence[Params] | None = None


# what a query returns is typed by the statement that yields it: `yield` itself returns an object
Op: TypeAlias = Generator[Query, object, T]


class Operation(Generic[T_co]):
    """A unit of work that can be retried, because some engines must run it more than once.

    It can therefore change only rows, and must be able to iterate its arguments again. `yield from`
    runs it as a part of another operation. With `snapshot` all its queries see one state; otherwise
    each sees what was committed before it. With `isolated` it shares no transaction.
    """

    __slots__ = ("_args", "_kwargs", "apart", "snapshot", "steps")

    def __init__(
        self,
        steps: Callable[..., Op[T_co]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        snapshot: bool = False,
        isolated: bool = False,
    ) -> None:
        self.steps = steps
        self.snapshot = snapshot
        self.apart = isolated or snapshot
        self._args = args
        self._kwargs = kwargs

    def __iter__(self) -> Op[T_co]:
        return self.steps(*self._args, **self._kwargs)


def operation(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """Make a generator function an operation."""

    @wraps(steps)
    def build_operation(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs)

    return build_operation


def on_snapshot(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """Make a generator function an operation on a snapshot: it reads rows it cannot lock."""

    @wraps(steps)
    def build_operation(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs, snapshot=True)

    return build_operation


def isolated(steps: Callable[P, Op[T]]) -> Callable[P, Operation[T]]:
    """Make a generator function an operation in its own transaction, as it may wait for locks."""

    @wraps(steps)
    def build_operation(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(steps, args, kwargs, isolated=True)

    return build_operation


class CompiledStatement:
    """A statement's text in one dialect, with the conversion of its values and rows."""

    def __init__(self, clause: Clause, dialect: Dialect, read_rows: RowReader) -> None:
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
            [
                column.type.dialect_impl(dialect).result_processor(dialect, None)
                for column in clause.exported_columns
            ]
        )
        self._read_rows = read_rows

    def encode_params(self, params: Params | object) -> Sequence[object]:
        """Return the driver's values, in the order of the text."""
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

    def read_rows(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the values of the driver's rows, in the type of the statement."""
        if not self._decoders or not rows:
            return self._read_rows(rows)
        decoded = []
        for row in rows:
            values = list(row)
            for index, decode in self._decoders:
                values[index] = decode(values[index])
            decoded.append(values)
        return self._read_rows(decoded)


class CoreStatement:
    """A Core statement, compiled on its first run: a short process runs only a few."""

    def __init__(self, clause: Clause, read_rows: RowReader) -> None:
        self.clause = clause
        self._read_rows = read_rows

    @cached_property
    def sqlite(self) -> CompiledStatement:
        """Return the statement compiled for SQLite."""
        return CompiledStatement(self.clause, SQLITE, self._read_rows)

    @cached_property
    def postgres(self) -> CompiledStatement:
        """Return the statement compiled for asyncpg."""
        return CompiledStatement(self.clause, POSTGRESQL, self._read_rows)


class Command(CoreStatement):
    """A statement without rows: an operation yields it, and receives nothing."""

    def __init__(self, clause: Clause) -> None:
        super().__init__(clause, list)
        if names := list_column_names(clause):
            raise TypeError(f"a command returns no rows, but this one has {', '.join(names)}")

    def __call__(self, values: object = None, /, **params: object) -> Query:
        """Return the command with values by name, or with an object's attributes as values."""
        return Query(self, params if values is None else values)

    def bind_many(self, rows: Sequence[Params]) -> Query:
        """Return the command once for each set of values."""
        return Query(self, {}, rows)


class Statement(CoreStatement, Generic[R]):
    """A statement whose rows are values of a type: `payment = yield from _FIND.first(id_=...)`.

    `row_type` is a dataclass or a named tuple with a field for each selected column, in the same
    order, or the type of the only column. `parts` are the types of fields that are entities
    themselves. Values come by name, or as the attributes of an object.
    """

    def __init__(self, clause: Clause, row_type: type[R], **parts: type[Any]) -> None:
        super().__init__(clause, make_row_reader(list_column_names(clause), row_type, parts))
        self.row_type = row_type
        self.parts = parts

    @classmethod
    def nullable(cls, clause: Clause, row_type: type[T]) -> Statement[T | None]:
        """Return a statement with one column, which can be null."""
        return cast("Statement[T | None]", cls(clause, cast("Any", row_type)))

    def all(self, values: object = None, /, **params: object) -> Op[list[R]]:
        """Return all rows."""
        result: Any = yield Query(self, params if values is None else values)
        rows: list[R] = result
        return rows

    def any(self, values: object = None, /, **params: object) -> Op[bool]:
        """Return whether it has, or changed, any row."""
        return bool((yield Query(self, params if values is None else values)))

    def first(self, values: object = None, /, **params: object) -> Op[R | None]:
        """Return the first row; None without rows."""
        result: Any = yield Query(self, params if values is None else values)
        rows: list[R] = result
        return rows[0] if rows else None

    def single(self, values: object = None, /, **params: object) -> Op[R]:
        """Return the only row; raise LookupError if there is another number of rows."""
        result: Any = yield Query(self, params if values is None else values)
        rows: list[R] = result
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows instead of one: {self.clause}")
        return rows[0]


def run(op: Operation[T], execute: Callable[[Query], list[Any]]) -> T:
    """Run an operation to its end; an exception of `execute` ends it."""
    steps = iter(op)
    try:
        query = next(steps)
        while True:
            query = steps.send(execute(query))
    except StopIteration as stop:
        result: T = stop.value
        return result


def to_row_params(value: Any) -> dict[str, object]:
    """Return a dataclass as values of the columns with its fields' names."""
    names, pick = _fields(cast("Hashable", type(value)))
    return dict(zip(names, pick(value), strict=True))


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], Sequence[object]]]:
    names = [field.name for field in fields(kind)]
    return tuple(names), _picker(attrgetter, names)


def columns(table: Table, kind: type[Any]) -> list[Column[Any]]:
    """Return the columns of a dataclass, in the order of its fields."""
    return [table.c[field.name] for field in fields(kind)]


def list_column_names(clause: Clause) -> list[str]:
    """Return the names of the columns that a statement returns, in order."""
    # quicker than `exported_columns`, which also makes each name unique
    columns_ = clause.inner_columns if isinstance(clause, Select) else clause.exported_columns
    return [getattr(column, "name", "") for column in columns_]


def insert(table: Table) -> Insert:
    """Return an INSERT of all columns with ON CONFLICT and RETURNING, equal in both dialects."""
    return _insert(table)


def upsert(table: Table, *key: str) -> Insert:
    """Return an INSERT that updates the row with an equal key, if any; primary keys stay."""
    new = insert(table)
    rest = {
        column.name: new.excluded[column.name]
        for column in table.c
        if column.name not in key and not column.primary_key
    }
    return new.on_conflict_do_update(index_elements=list(key), set_=rest)


def param(name: str, type_: type[sqltypes.TypeEngine[Any]] | None = None) -> BindParameter[Any]:
    """Return a parameter whose value comes with each call."""
    return bindparam(name, type_=type_) if type_ else bindparam(name)


def is_in(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return `column IN (texts)` with SQL that does not depend on the number of texts."""
    return _IsIn(column, name)


def is_one_of(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """Return whether a column is one of a few constant values, as SQL."""
    return or_(*(column == value for value in values))


class _IsIn(ColumnElement[Any]):
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], name: str) -> None:
        # a Boolean would be compared with 1 on SQLite, which then uses no index
        self.type = sqltypes.NullType()
        self.column = column
        self.values = bindparam(name, type_=TextList)


class sum_u256(ColumnElement[Any]):  # noqa: N801  (reads as the SQL that it is)
    """The sum of amounts of up to 256 bits each, exact."""

    inherit_cache = False

    def __init__(self, amounts: ColumnElement[Any]) -> None:
        self.type = amounts.type
        self.amounts = amounts


class icontains(ColumnElement[bool]):  # noqa: N801  (reads as the SQL that it is)
    """A condition that one text contains another, ignoring case; no character is special."""

    inherit_cache = False

    def __init__(self, text: ColumnElement[Any], part: ColumnElement[Any]) -> None:
        self.type = sqltypes.Boolean()
        self.text = text
        self.part = part


@compiles(_IsIn, "sqlite")
def _is_in_sqlite(element: _IsIn, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = (
        compiler.process(operand, **kw) for operand in (element.column, element.values)
    )
    return f"({column} IN (SELECT value FROM json_each({values})))"  # noqa: S608


@compiles(_IsIn, "postgresql")
def _is_in_postgresql(element: _IsIn, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = (
        compiler.process(operand, **kw) for operand in (element.column, element.values)
    )
    return f"({column} = ANY ({values}))"


@compiles(sum_u256, "sqlite")
def _sum_u256_sqlite(element: sum_u256, compiler: SQLCompiler, **kw: Any) -> str:
    return f"exact_sum({compiler.process(element.amounts, **kw)})"


@compiles(sum_u256, "postgresql")
def _sum_u256_postgresql(element: sum_u256, compiler: SQLCompiler, **kw: Any) -> str:
    return f"sum({compiler.process(element.amounts, **kw)})"


@compiles(icontains, "sqlite")
def _icontains_sqlite(element: icontains, compiler: SQLCompiler, **kw: Any) -> str:
    # SQLite's own lower() knows only ASCII
    text, part = compiler.process(element.text, **kw), compiler.process(element.part, **kw)
    return f"instr(fold_case({text}), fold_case({part})) > 0"


@compiles(icontains, "postgresql")
def _icontains_postgresql(element: icontains, compiler: SQLCompiler, **kw: Any) -> str:
    text, part = compiler.process(element.text, **kw), compiler.process(element.part, **kw)
    # like SQLite's function, except for rarer letters whose case mapping has two letters
    total, looked_for = (
        f"replace(lower(normalize({operand})), 'ß', 'ss')" for operand in (text, part)
    )
    return f"strpos({total}, {looked_for}) > 0"


def _picker(getter: Callable[..., Any], names: list[str]) -> Callable[[Any], Sequence[object]]:
    """Return a getter that always returns a sequence, even for a single name."""
    if not names:
        return lambda _: ()
    pick: Callable[[Any], Sequence[object]] = getter(*names)
    return pick if len(names) > 1 else lambda params: (pick(params),)


def _converters(converters: Sequence[Callable[[Any], Any] | None]) -> list[tuple[int, Any]]:
    return [(index, convert) for index, convert in enumerate(converters) if convert]
