"""`florin store partition`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from florin_server.app import stores
from florin_server.app.home import SetupError
from florin_server.cli.console import console, fail, print_hint, print_json, show_progress
from florin_server.cli.settings import get_settings
from florin_server.db.engine import partitioning
from florin_server.db.engine.query import StoreError


def partition_store(overrides: dict[str, Any]) -> None:
    """Partition the store, and print its partitions."""
    settings = get_settings(overrides)
    try:
        with show_progress("Partitioning the store"):
            result = partitioning.partition(stores.get_location(settings))
    except (SetupError, StoreError, OSError) as error:
        fail("Not partitioned", error)
    partitions = [asdict(part) for part in result.partitions]
    if not print_json({"converted": result.is_converted, "partitions": partitions}):
        for part in result.partitions:
            console.print(f"{part.month:<8} {part.size_bytes / 1_000_000:>10.1f} MB")
        done = "has partitions now" if result.is_converted else "had partitions already"
        console.print(f"The store {done}; {result.created_months} months were created.")
    stray = [f"{count} rows are in {name}" for name, count in result.status.stray_rows.items()]
    for problem in (*result.status.missing, *stray):
        print_hint(f"{problem}.")
