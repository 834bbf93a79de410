"""`florin customers`: the data that Florin stores about a payer's account."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from florin.v1 import archive_pb2, customer_pb2, held_pb2, payment_pb2
from grpc_rest_gateway.jsonshape import format_timestamp

from florin_server.api.server.timestamps import to_timestamp
from florin_server.app.operator.client import OperatorClient
from florin_server.app.operator.error import OperatorError
from florin_server.cli.archive_files import list_archive_files, to_archive_file
from florin_server.cli.console import console, fail, print_hint, print_json, show_progress
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import (
    call_operator,
    fail_with_operator_error,
    run_with_operator,
)
from florin_server.cli.settings import get_settings
from florin_server.domain.archive import ArchivedCustomerPayment, ArchiveError
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ErrorCode
from florin_server.money.archive.service.customers import list_customer_payments
from florin_server.money.archive.service.folder import ArchiveFolder

_UNKNOWN = ErrorCode.CUSTOMER_NOT_FOUND
_ALTERNATIVE = ", or leave the archive out: --no-archive"
_SOURCES = {
    customer_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED: None,
    customer_pb2.CUSTOMER_DATA_SOURCE_FORM: "form",
    customer_pb2.CUSTOMER_DATA_SOURCE_WALLET: "wallet",
}


@dataclass(frozen=True, slots=True)
class _StoredCustomer:
    """The stored data of a customer, and the files of the archive a moment later.

    `refusal` is None unless the store has nothing.
    """

    data: customer_pb2.ExportCustomerResponse
    refusal: OperatorError | None
    files: Sequence[archive_pb2.ArchiveFile]


def export_customer(overrides: dict[str, Any], account: str, *, with_archive: bool) -> None:
    """Print all data of an account in the store and, unless it is left out, in the archive.

    The JSON says whether the archive was left out. Ends the program if a file of the archive
    cannot be read: a part of the payments is not an export.
    """

    async def read_store(service: OperatorClient) -> _StoredCustomer:
        request = customer_pb2.ExportCustomerRequest(account=account)
        data, refusal = customer_pb2.ExportCustomerResponse(), None
        try:
            data = await service.call("ExportCustomer", request)
        except OperatorError as error:
            if error.code != _UNKNOWN:
                raise
            refusal = error
        # read after the payments: one that leaves the store meanwhile is in a file
        return _StoredCustomer(data, refusal, await list_archive_files(service))

    stored = run_with_operator(overrides, read_store)
    is_left_out = bool(stored.files) and not with_archive
    archived = (
        [] if is_left_out else _list_archived(overrides, canonicalize_account(account), stored)
    )
    if stored.refusal is not None and not archived:
        fail_with_operator_error(stored.refusal)
    payments = [_to_payment_json(payment, archived=False) for payment in stored.data.payments]
    payments += [_to_payment_json(payment, archived=True) for payment in archived]
    document = {
        "account": canonicalize_account(account),
        "payments": sorted(payments, key=itemgetter("createdAt"), reverse=True),
        "collectedData": [_to_data_json(collected) for collected in stored.data.collected_data],
        "depositClaims": [_to_claim_json(claim) for claim in stored.data.deposit_claims],
        "archiveLeftOut": is_left_out,
    }
    if not print_json(document):
        console.print(json.dumps(document, indent=2, ensure_ascii=False))
    if is_left_out:
        print_hint(f"Payments in the {len(stored.files)} files of the archive are not included.")


def _list_archived(
    overrides: dict[str, Any], account: str, stored: _StoredCustomer
) -> list[customer_pb2.CustomerPayment]:
    """Return the payments that are only in the archive, the newest first."""
    if not stored.files:
        return []
    folder = get_settings(overrides).archive.folder
    if folder is None:
        reason = f"{len(stored.files)} files are in the archive, and the settings name no folder"
        fail(
            "Not exported", f"{reason}: set [archive] folder{_ALTERNATIVE}", ExitStatus.USAGE_ERROR
        )
    stored_ids = {payment.payment_id for payment in stored.data.payments}
    # of payments that other accounts paid, only the data has the customer
    ids = {collected.payment_id for collected in stored.data.collected_data} - stored_ids
    try:
        with show_progress("Reading the archive"):
            archived = list_customer_payments(
                ArchiveFolder(folder),
                [to_archive_file(file) for file in stored.files],
                account,
                ids,
            )
    except ArchiveError as error:
        fail("Not exported", f"{error}; list damaged files: florin archive verify{_ALTERNATIVE}")
    return [
        _to_customer_payment(payment, account)
        for payment in archived
        if payment.id not in stored_ids
    ]


def _to_customer_payment(
    payment: ArchivedCustomerPayment, account: str
) -> customer_pb2.CustomerPayment:
    """Return an archived payment as the service returns a stored one."""
    is_payer = payment.payer == account
    return customer_pb2.CustomerPayment(
        payment_id=payment.id,
        status=payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{payment.status.name}"),
        created_at=to_timestamp(payment.created_at_us),
        payer=is_payer,
        tx_id=payment.tx_id or "" if is_payer else "",
    )


def _to_payment_json(
    customer_payment: customer_pb2.CustomerPayment, *, archived: bool
) -> dict[str, Any]:
    """Return a payment with the member names of the REST API."""
    status = payment_pb2.PaymentStatus.Name(customer_payment.status)
    return {
        "paymentId": customer_payment.payment_id,
        "status": status.removeprefix("PAYMENT_STATUS_").lower(),
        "createdAt": format_timestamp(customer_payment.created_at),
        "payer": customer_payment.payer,
        "walletName": customer_payment.wallet_name or None,
        "txId": customer_payment.tx_id or None,
        "archived": archived,
    }


def _to_data_json(customer: customer_pb2.CustomerData) -> dict[str, Any]:
    """Return collected data of the buyer; `data` is null if its decryption key is lost."""
    return {
        "paymentId": customer.payment_id,
        "collectedAt": format_timestamp(customer.collected_at),
        "keptUntil": format_timestamp(customer.kept_until),
        "source": _SOURCES[customer.source],
        "app": customer.app or None,
        "proven": customer.proven,
        "data": json.loads(customer.data_json) if customer.data_json else None,
    }


def _to_claim_json(customer_claim: customer_pb2.CustomerDepositClaim) -> dict[str, Any]:
    """Return a claim for money at a payment's address."""
    claim = customer_claim.claim
    state = held_pb2.DepositClaimState.Name(claim.state)
    is_decided = claim.HasField("decided_at")
    return {
        "paymentId": customer_claim.payment_id,
        "claimId": claim.claim_id,
        "asset": claim.asset,
        "amount": claim.amount,
        "message": claim.message or None,
        "state": state.removeprefix("DEPOSIT_CLAIM_STATE_").lower(),
        "createdAt": format_timestamp(claim.created_at),
        "decidedAt": format_timestamp(claim.decided_at) if is_decided else None,
    }


def erase_customer(overrides: dict[str, Any], account: str) -> None:
    """Erase the stored data except the records of moved money, and print what stayed."""
    done = call_operator(
        overrides, "EraseCustomer", customer_pb2.EraseCustomerRequest(account=account)
    )
    if print_json(done):
        return
    console.print(
        f"Erased: {done.offers_erased} offers, {done.wallet_names_erased} wallet names, "
        f"{done.collected_data_erased} sets of data about the buyer, "
        f"{done.deposit_claims_erased} claims."
    )
    console.print(f"Kept: {done.payments_kept} payments, because their money moved.")
