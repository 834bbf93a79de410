"""`florin receipt-keys`: the keys that sign receipts."""

from __future__ import annotations

from typing import Any

from florin.v1 import receipt_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute
from florin_server.domain.receipts.keys import PUBLISHED_US

_COLUMNS = ("Key id", "Made", "Signs", "Revoked")


def show(given: dict[str, Any]) -> None:
    """Prints all keys."""
    found = ask(given, "ListReceiptKeys", receipt_pb2.ListReceiptKeysRequest())
    if not told(found):
        table(_COLUMNS, map(_row, found.keys))


def rotate(given: dict[str, Any]) -> None:
    """Makes a key, and tells from when on it signs."""
    made = ask(given, "RotateReceiptKey", receipt_pb2.RotateReceiptKeyRequest()).key
    if not told(made):
        console.print(made.key_id)
    note(f"It is published now, and signs in {PUBLISHED_US // 60_000_000} minutes.")


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    request = receipt_pb2.RevokeReceiptKeyRequest(key_id=key_id)
    done = ask(given, "RevokeReceiptKey", request).key
    if not told(done):
        console.print(f"{done.key_id} is revoked.")


def _row(key: receipt_pb2.ReceiptKey) -> tuple[str, ...]:
    return (
        key.key_id,
        minute(key, "created_at"),
        "yes" if key.signs else "-",
        minute(key, "revoked_at"),
    )
