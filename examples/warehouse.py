"""Print SQL that loads an export of Florin into DuckDB or PostgreSQL, with views for analyses.

Needs only Python; Florin is not installed where the data is read. The views are in `warehouse.sql`.

    florin export --to data/lake --format parquet
    python examples/warehouse.py data/lake duckdb > load.sql

    florin export --to data/csv --format csv
    python examples/warehouse.py data/csv postgresql | psql --set ON_ERROR_STOP=1 mydatabase

The SQL replaces the schemas `florin_raw` (all rows) and `florin` (latest rows and views), so it can
run again after each export. It loads only the files that `export.json` names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

VIEWS = Path(__file__).with_name("warehouse.sql")
FORMATS = {"duckdb": "parquet", "postgresql": "csv"}
# tables that the views read
NEEDED = ("payments", "options", "confirmations", "events", "refunds", "ledger")
FLAGS = {"live", "chosen", "proven"}
NUMBERS = {
    *("part", "version", "n", "fee_basis_points", "eta", "head", "fetches", "from_block"),
    *("failures", "reverted", "nonce", "variants", "size", "sent_block", "block_number", "gas_max"),
}


class UnusableExportError(Exception):
    """The folder has no export that can be loaded; the text says why."""


def quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def get_type(column: str, columns: list[str], engine: str) -> str:
    """Return the SQL type of a column, by the rules of the data dictionary."""
    if column.endswith("_minor"):
        # up to 78 digits, more than a decimal of DuckDB has
        return "NUMERIC(78, 0)" if engine == "postgresql" else "VARCHAR"
    if f"{column}_minor" in columns:
        return "NUMERIC" if engine == "postgresql" else "DECIMAL(38, 18)"
    if column in {"at", "kept_until"} or column.endswith("_at"):
        return "TIMESTAMP WITH TIME ZONE"
    if column in FLAGS:
        return "BOOLEAN"
    return "BIGINT" if column in NUMBERS else "VARCHAR"


def read_export(folder: Path, engine: str) -> dict[str, dict[str, list[str]]]:
    """Return columns, key and files of each table; raise UnusableExportError if they do not fit."""
    try:
        manifest = json.loads((folder / "export.json").read_text())
        format_, tables = manifest["format"], manifest["tables"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableExportError(f"{folder} has no export: run florin export first") from error
    if format_ != FORMATS[engine]:
        raise UnusableExportError(
            f"{engine} loads {FORMATS[engine]}, and {folder} has {format_}: "
            f"run florin export --format {FORMATS[engine]} into a new folder"
        )
    if missing := [name for name in NEEDED if name not in tables]:
        raise UnusableExportError(f"{folder} has no table {', '.join(missing)}: export all tables")
    names = [*tables, *(name for table in tables.values() for name in table["columns"])]
    if wrong := [name for name in names if not name.isidentifier()]:
        raise UnusableExportError(f"{folder} has a name that is no identifier: {wrong[0][:80]!r}")
    return {
        name: {
            "columns": table["columns"],
            "key": table["key"],
            "files": [str((folder / part).resolve()) for part in sorted(table["parts"])],
        }
        for name, table in tables.items()
    }


def list_statements(folder: Path, engine: str) -> list[str]:
    """Return the statements and psql commands that load an export, without the views."""
    statements = ["BEGIN;"]
    for schema in ("florin", "florin_raw"):
        statements += [f"DROP SCHEMA IF EXISTS {schema} CASCADE;", f"CREATE SCHEMA {schema};"]
    for name, table in read_export(folder, engine).items():
        columns = table["columns"]
        typed = ", ".join(f'"{column}" {get_type(column, columns, engine)}' for column in columns)
        statements.append(f"CREATE TABLE florin_raw.{name} ({typed});")
        listed = ", ".join(f'"{column}"' for column in columns)
        into = f"florin_raw.{name} ({listed})"
        for file in map(quote, table["files"]):
            if engine == "duckdb":
                load = f"INSERT INTO {into} SELECT {listed} FROM read_parquet({file});"  # noqa: S608
            else:
                load = f"\\copy {into} FROM {file} WITH (FORMAT csv, HEADER true, ENCODING 'UTF8')"
            statements.append(load)
        key = ", ".join(f'"{column}"' for column in table["key"])
        statements.append(
            f"CREATE VIEW florin.{name} AS SELECT {listed} FROM (SELECT *, row_number() OVER "  # noqa: S608
            f"(PARTITION BY {key} ORDER BY part DESC) AS newest FROM florin_raw.{name}) AS rows "
            "WHERE newest = 1;"
        )
    return statements


def main(arguments: list[str]) -> None:
    """Print the SQL; exit with a sentence if that is impossible."""
    if len(arguments) != 2 or arguments[1] not in FORMATS:
        sys.exit("usage: python warehouse.py FOLDER duckdb|postgresql")
    try:
        statements = list_statements(Path(arguments[0]), arguments[1])
    except UnusableExportError as error:
        sys.exit(str(error))
    sys.stdout.write("\n".join([*statements, VIEWS.read_text(), "COMMIT;\n"]))


if __name__ == "__main__":
    main(sys.argv[1:])
