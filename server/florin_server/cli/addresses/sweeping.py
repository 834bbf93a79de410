"""`florin addresses sweep`: list money that is still at addresses, and send it home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from florin.v1 import address_pb2

from florin_server.cli.console import console, fail, print_hint, print_json, print_table
from florin_server.cli.operation import call_operator

_COLUMNS = ("Amount", "State", "Address", "Payment", "Asset")


def sweep(
    overrides: dict[str, Any], chain_id: str, addresses: Sequence[str], *, everything: bool
) -> None:
    """List the money, or send home that of some addresses or of all."""
    listed = call_operator(
        overrides,
        "ListAddressMoney",
        address_pb2.ListAddressMoneyRequest(chain_id=chain_id),
        running_only=True,
    )
    if not addresses and not everything:
        _print_list(listed)
        return
    chosen = {address.rpartition(":")[2].lower() for address in addresses}
    # an address has one request at a time: a second asset needs a second run
    items = {
        item.address: address_pb2.AddressAsset(address=item.address, asset=item.asset)
        for item in reversed(listed.items)
        if everything or item.address.rpartition(":")[2] in chosen
    }
    if missing := chosen - {address.rpartition(":")[2] for address in items}:
        fail(f"{min(missing)} holds no money that is listed", f"florin addresses sweep {chain_id}")
    if not items:
        _print_list(listed)
        return
    request = address_pb2.SweepAddressesRequest(chain_id=chain_id, items=list(items.values()))
    result = call_operator(overrides, "SweepAddresses", request, running_only=True)
    if print_json(result):
        return
    for address in result.addresses:
        console.print(address)
    print_hint("Florin moves what is there, and returns it or holds it: `florin payments held`.")


def _print_list(listed: address_pb2.ListAddressMoneyResponse) -> None:
    if print_json(listed):
        return
    if not listed.items:
        print_hint("No address of the chain holds money of a payment that is over.")
        return
    rows = (
        (
            item.amount,
            "requested" if item.is_requested else "left",
            item.address,
            item.payment_id,
            item.asset,
        )
        for item in listed.items
    )
    print_table(_COLUMNS, rows)
    if listed.has_more:
        print_hint("There is more: sweep these first.")
