"""`florin leases`: list the leases of signing keys and their processes, and release a lease."""

from __future__ import annotations

from typing import Any

from florin.v1 import lease_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import call_operator, format_minute, usage_error
from florin_server.cli.payments.formatting import confirm

_COLUMNS = ("Lease", "State", "Until", "Renewed", "Epoch", "Holder")


def list_leases(overrides: dict[str, Any]) -> None:
    """Print all leases."""
    result = call_operator(overrides, "ListLeases", lease_pb2.ListLeasesRequest())
    if not print_json(result):
        now_s = result.read_at.ToSeconds()
        print_table(_COLUMNS, (_to_row(lease, now_s) for lease in result.leases))


def release_lease(overrides: dict[str, Any], name: str, *, yes: bool) -> None:
    """Show the process that has a lease, ask, and release the lease."""
    result = call_operator(overrides, "ListLeases", lease_pb2.ListLeasesRequest())
    lease = next((each_lease for each_lease in result.leases if each_lease.name == name), None)
    if lease is None:
        usage_error(f"unknown lease {name[:80]!r}: `florin leases list` shows all leases")
    if not lease.holder:
        usage_error(f"no process has the lease {name}")
    renewed = _format_renewed(lease, result.read_at.ToSeconds())
    print_hint(f"{lease.holder} has {name}, renewed {renewed}.")
    if not confirm("Release it, so that any process can acquire it?", yes=yes):
        print_hint("Nothing changed.")
        raise SystemExit(int(ExitStatus.REFUSED))
    request = lease_pb2.ReleaseLeaseRequest(name=name, holder=lease.holder)
    released = call_operator(overrides, "ReleaseLease", request)
    if not print_json(released):
        console.print(f"{released.name} is released.")


def _to_row(lease: lease_pb2.Lease, now_s: int) -> tuple[str, ...]:
    state = "held" if lease.held else "lapsed" if lease.holder else "free"
    until, renewed = format_minute(lease, "until"), _format_renewed(lease, now_s)
    return lease.name, state, until, renewed, str(lease.epoch), lease.holder or "-"


def _format_renewed(lease: lease_pb2.Lease, now_s: int) -> str:
    if not lease.holder:
        return "-"
    return f"{max(0, now_s - lease.renewed_at.ToSeconds())} s ago"
