"""`florin partners`: businesses that own keys and merchants."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import call_operator, format_minute

_COLUMNS = ("Partner id", "Status", "Version", "Created", "Name")
_ACTIVE, _SUSPENDED = partner_pb2.PARTNER_STATUS_ACTIVE, partner_pb2.PARTNER_STATUS_SUSPENDED


def create_partner(overrides: dict[str, Any], name: str) -> None:
    """Create a partner, and print its id."""
    created = call_operator(overrides, "CreatePartner", partner_pb2.CreatePartnerRequest(name=name))
    if not print_json(created):
        console.print(created.id)
        print_hint(f"Create a key for it: florin keys create partner --partner {created.id}")


def list_partners(overrides: dict[str, Any]) -> None:
    """Print all partners."""
    result = call_operator(overrides, "ListPartners", partner_pb2.ListPartnersRequest())
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.partners))


def _to_row(partner: partner_pb2.Partner) -> tuple[str, ...]:
    return (
        partner.id,
        _format_status(partner.status),
        partner.version_pin,
        format_minute(partner, "created_at"),
        partner.name,
    )


def suspend_partner(overrides: dict[str, Any], partner_id: str) -> None:
    """Suspend a partner: Florin rejects all its keys."""
    _set_status(overrides, partner_id, _SUSPENDED)


def resume_partner(overrides: dict[str, Any], partner_id: str) -> None:
    """Resume a partner: Florin accepts its keys again."""
    _set_status(overrides, partner_id, _ACTIVE)


def _set_status(
    overrides: dict[str, Any], partner_id: str, status: partner_pb2.PartnerStatus.ValueType
) -> None:
    request = partner_pb2.SetPartnerStatusRequest(partner_id=partner_id, status=status)
    done = call_operator(overrides, "SetPartnerStatus", request)
    if not print_json(done):
        console.print(f"{done.id} is {_format_status(done.status)}.")


def _format_status(status: partner_pb2.PartnerStatus.ValueType) -> str:
    return partner_pb2.PartnerStatus.Name(status).removeprefix("PARTNER_STATUS_").lower()
