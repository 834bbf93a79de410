"""`florin leases`: which process signs with which key, and taking a lease away from one."""

from __future__ import annotations

from typing import Any

from florin.v1 import lease_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.exits import Exit
from florin_server.cli.operation import ask, minute, misused
from florin_server.cli.payments.words import agreed

_COLUMNS = ("Lease", "State", "Until", "Renewed", "Epoch", "Holder")


def show(given: dict[str, Any]) -> None:
    """Print all leases."""
    found = ask(given, "ListLeases", lease_pb2.ListLeasesRequest())
    if not told(found):
        now_s = found.read_at.ToSeconds()
        table(_COLUMNS, (_row(one, now_s) for one in found.leases))


def release(given: dict[str, Any], name: str, *, yes: bool) -> None:
    """Show who has a lease, ask, and take it away."""
    found = ask(given, "ListLeases", lease_pb2.ListLeasesRequest())
    lease = next((one for one in found.leases if one.name == name), None)
    if lease is None:
        misused("there is no such lease: see florin leases list")
    if not lease.holder:
        misused("no process has it")
    renewed = _renewed(lease, found.read_at.ToSeconds())
    note(f"{lease.holder} has {name}, renewed {renewed}.")
    if not agreed("Take it away, so that any process may take it?", yes=yes):
        note("Nothing is released.")
        raise SystemExit(int(Exit.REFUSED))
    request = lease_pb2.ReleaseLeaseRequest(name=name, holder=lease.holder)
    released = ask(given, "ReleaseLease", request)
    if not told(released):
        console.print(f"{released.name} is released.")


def _row(one: lease_pb2.Lease, now_s: int) -> tuple[str, ...]:
    state = "held" if one.held else "lapsed" if one.holder else "free"
    until, renewed = minute(one, "until"), _renewed(one, now_s)
    return one.name, state, until, renewed, str(one.epoch), one.holder or "-"


def _renewed(one: lease_pb2.Lease, now_s: int) -> str:
    if not one.holder:
        return "-"
    return f"{max(0, now_s - one.renewed_at.ToSeconds())} s ago"
