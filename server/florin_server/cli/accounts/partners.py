"""`florin partners`: businesses that own keys and merchants."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute

_COLUMNS = ("Partner id", "Status", "Version", "Created", "Name")
_ACTIVE, _SUSPENDED = partner_pb2.PARTNER_STATUS_ACTIVE, partner_pb2.PARTNER_STATUS_SUSPENDED


def create(given: dict[str, Any], name: str) -> None:
    """Makes a partner and prints its id."""
    made = ask(given, "CreatePartner", partner_pb2.CreatePartnerRequest(name=name))
    if not told(made):
        console.print(made.id)
        note(f"Its keys: florin keys create partner --partner {made.id}")


def show(given: dict[str, Any]) -> None:
    """Prints all partners."""
    found = ask(given, "ListPartners", partner_pb2.ListPartnersRequest())
    if not told(found):
        table(_COLUMNS, map(_row, found.partners))


def _row(partner: partner_pb2.Partner) -> tuple[str, ...]:
    return (
        partner.id,
        _word(partner.status),
        partner.version_pin,
        minute(partner, "created_at"),
        partner.name,
    )


def suspend(given: dict[str, Any], partner_id: str) -> None:
    """Makes all keys of a partner useless."""
    _set(given, partner_id, _SUSPENDED)


def resume(given: dict[str, Any], partner_id: str) -> None:
    """Lets the keys of a partner work again."""
    _set(given, partner_id, _ACTIVE)


def _set(
    given: dict[str, Any], partner_id: str, status: partner_pb2.PartnerStatus.ValueType
) -> None:
    request = partner_pb2.SetPartnerStatusRequest(partner_id=partner_id, status=status)
    done = ask(given, "SetPartnerStatus", request)
    if not told(done):
        console.print(f"{done.id} is {_word(done.status)}.")


def _word(status: partner_pb2.PartnerStatus.ValueType) -> str:
    return partner_pb2.PartnerStatus.Name(status).removeprefix("PARTNER_STATUS_").lower()
