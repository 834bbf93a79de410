"""`florin merchants`: what the operator does for merchants."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, partner_pb2

from florin_server.cli.console import console, note, told
from florin_server.cli.operation import ask, misused, mode

_STATUS = {
    "active": account_pb2.MERCHANT_STATUS_ACTIVE,
    "inactive": account_pb2.MERCHANT_STATUS_INACTIVE,
    "suspended": account_pb2.MERCHANT_STATUS_SUSPENDED,
}


def add(
    given: dict[str, Any],
    merchant_id: str,
    *,
    partner: str,
    name: str,
    email: str,
    icon_url: str | None,
    live: bool,
) -> None:
    """Makes a merchant under a given id and prints the id."""
    request = partner_pb2.ImportMerchantRequest(
        merchant_id=merchant_id,
        partner_id=partner,
        name=name,
        email=email,
        icon_url=icon_url,
        live=live,
    )
    made = ask(given, "ImportMerchant", request)
    if told(made):
        return
    console.print(made.merchant.id)
    note(f"A merchant of {made.partner_id} for {mode(live=made.live)} data.")


def set_status(given: dict[str, Any], merchant_id: str, status: str) -> None:
    """Changes whether a merchant may take payments."""
    if status not in _STATUS:
        misused("the status is active, inactive or suspended")
    request = partner_pb2.SetMerchantStatusRequest(merchant_id=merchant_id, status=_STATUS[status])
    done = ask(given, "SetMerchantStatus", request)
    if not told(done):
        name = account_pb2.MerchantStatus.Name(done.merchant.status)
        console.print(f"{done.merchant.id} is {name.removeprefix('MERCHANT_STATUS_').lower()}.")


def add_bank_account(given: dict[str, Any], merchant_id: str, bank_type: str, status: str) -> None:
    """Registers a bank account and prints the id of the settlement."""
    request = partner_pb2.AddFiatSettlementRequest(
        merchant_id=merchant_id, status=status, bank_type=bank_type
    )
    made = ask(given, "AddFiatSettlement", request)
    if not told(made):
        console.print(made.id)
