"""`florin merchants import`, `support`, `status` and `bank`: the operator's commands."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, partner_pb2

from florin_server.cli.console import console, print_hint, print_json
from florin_server.cli.operation import call_operator, format_mode, usage_error

_STATUS = {
    "active": account_pb2.MERCHANT_STATUS_ACTIVE,
    "inactive": account_pb2.MERCHANT_STATUS_INACTIVE,
    "suspended": account_pb2.MERCHANT_STATUS_SUSPENDED,
}


def import_merchant(
    overrides: dict[str, Any],
    merchant_id: str,
    *,
    partner: str,
    name: str,
    email: str,
    icon_url: str | None,
    support_email: str | None,
    support_url: str | None,
    live: bool,
) -> None:
    """Create a merchant with a given id, and print the id."""
    request = partner_pb2.ImportMerchantRequest(
        merchant_id=merchant_id,
        partner_id=partner,
        name=name,
        email=email,
        icon_url=icon_url,
        support_email=support_email,
        support_url=support_url,
        live=live,
    )
    created = call_operator(overrides, "ImportMerchant", request)
    if print_json(created):
        return
    console.print(created.merchant.id)
    print_hint(
        f"The merchant belongs to {created.partner_id}, for {format_mode(live=created.live)} data."
    )


def set_support(
    overrides: dict[str, Any], merchant_id: str, email: str | None, url: str | None
) -> None:
    """Change the contact for questions of buyers, and print it."""
    if email is None and url is None:
        usage_error("nothing to change: pass --support-email or --support-url")
    request = partner_pb2.SetMerchantSupportRequest(
        merchant_id=merchant_id, support_email=email, support_url=url
    )
    done = call_operator(overrides, "SetMerchantSupport", request)
    if not print_json(done):
        console.print(f"{'Email':<5}  {done.merchant.support_email or '-'}")
        console.print(f"{'Page':<5}  {done.merchant.support_url or '-'}")


def set_status(overrides: dict[str, Any], merchant_id: str, status: str) -> None:
    """Set the status of a merchant, which decides whether it can take payments."""
    if status not in _STATUS:
        usage_error(f"unknown status {status[:80]!r}: use active, inactive or suspended")
    request = partner_pb2.SetMerchantStatusRequest(merchant_id=merchant_id, status=_STATUS[status])
    done = call_operator(overrides, "SetMerchantStatus", request)
    if not print_json(done):
        name = account_pb2.MerchantStatus.Name(done.merchant.status)
        console.print(f"{done.merchant.id} is {name.removeprefix('MERCHANT_STATUS_').lower()}.")


def add_bank_account(
    overrides: dict[str, Any], merchant_id: str, bank_type: str, status: str
) -> None:
    """Register a bank account, and print the id of its settlement."""
    request = partner_pb2.AddFiatSettlementRequest(
        merchant_id=merchant_id, status=status, bank_type=bank_type
    )
    created = call_operator(overrides, "AddFiatSettlement", request)
    if not print_json(created):
        console.print(created.id)
