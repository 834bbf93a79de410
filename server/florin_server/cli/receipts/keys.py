"""`florin receipt-keys`: the keys that sign receipts."""

from __future__ import annotations

from typing import Any

from florin.v1 import receipt_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import call_operator, format_minute
from florin_server.domain.receipts.keys import PUBLICATION_US

_COLUMNS = ("Key id", "Created", "Signs", "Revoked")


def list_keys(overrides: dict[str, Any]) -> None:
    """Print all keys."""
    result = call_operator(overrides, "ListReceiptKeys", receipt_pb2.ListReceiptKeysRequest())
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.keys))


def rotate_key(overrides: dict[str, Any]) -> None:
    """Create a key, and print when it starts to sign."""
    key = call_operator(overrides, "RotateReceiptKey", receipt_pb2.RotateReceiptKeyRequest()).key
    if not print_json(key):
        console.print(key.key_id)
    print_hint(f"The key is published now, and signs in {PUBLICATION_US // 60_000_000} minutes.")


def revoke_key(overrides: dict[str, Any], key_id: str) -> None:
    """Revoke a key."""
    request = receipt_pb2.RevokeReceiptKeyRequest(key_id=key_id)
    done = call_operator(overrides, "RevokeReceiptKey", request).key
    if not print_json(done):
        console.print(f"{done.key_id} is revoked.")


def _to_row(key: receipt_pb2.ReceiptKey) -> tuple[str, ...]:
    return (
        key.key_id,
        format_minute(key, "created_at"),
        "yes" if key.signs else "-",
        format_minute(key, "revoked_at"),
    )
