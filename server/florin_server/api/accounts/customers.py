"""The operator's calls about customers."""

from __future__ import annotations

from typing import Any

from florin.v1 import customer_pb2

from florin_server.accounts.service import customers
from florin_server.api.context import ApiContext
from florin_server.api.payments.codec import to_payment_status
from florin_server.api.payouts.deposit_claims import to_deposit_claim
from florin_server.api.server.timestamps import to_timestamp
from florin_server.compliance.buyer_data.store import BuyerDataRecord, DataSource
from florin_server.domain.payments.payment import Payment

_DATA_SOURCES = {
    None: customer_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED,
    DataSource.FORM: customer_pb2.CUSTOMER_DATA_SOURCE_FORM,
    DataSource.INLINE: customer_pb2.CUSTOMER_DATA_SOURCE_WALLET,
}


class CustomerCalls:
    """Customers: export and erase their data."""

    _app: ApiContext

    async def ExportCustomer(
        self, request: customer_pb2.ExportCustomerRequest, context: Any
    ) -> customer_pb2.ExportCustomerResponse:
        """Return all stored data about an account."""
        customer = await customers.export(self._app, request.account)
        return customer_pb2.ExportCustomerResponse(
            account=customer.account,
            payments=[
                _to_customer_payment(payment, customer.account) for payment in customer.payments
            ],
            collected_data=[
                _to_customer_data(record, data) for record, data in customer.buyer_data
            ],
            deposit_claims=[
                customer_pb2.CustomerDepositClaim(
                    payment_id=claim.payment_id, claim=to_deposit_claim(claim)
                )
                for claim in customer.claims
            ],
        )

    async def EraseCustomer(
        self, request: customer_pb2.EraseCustomerRequest, context: Any
    ) -> customer_pb2.EraseCustomerResponse:
        """Erase stored data about an account, except what the ledger needs."""
        erased = await customers.erase(self._app, request.account)
        return customer_pb2.EraseCustomerResponse(
            offers_erased=erased.offers,
            wallet_names_erased=erased.wallets,
            payments_kept=erased.retained_payments,
            collected_data_erased=erased.data,
            deposit_claims_erased=erased.claims,
        )


def _to_customer_data(record: BuyerDataRecord, data: str | None) -> customer_pb2.CustomerData:
    return customer_pb2.CustomerData(
        payment_id=record.payment_id,
        collected_at=to_timestamp(record.created_at_us),
        kept_until=to_timestamp(record.kept_until_us),
        data_json=data or "",
        source=_DATA_SOURCES[record.data_source],
        app=record.app,
        proven=record.proven,
    )


def _to_customer_payment(payment: Payment, account: str) -> customer_pb2.CustomerPayment:
    pays = payment.payer == account
    named = pays and payment.provider_name != "unknown"
    return customer_pb2.CustomerPayment(
        payment_id=payment.id,
        status=to_payment_status(payment),
        created_at=to_timestamp(payment.created_at_us),
        payer=pays,
        wallet_name=payment.provider_name or "" if named else "",
        tx_id=payment.tx_id or "" if pays else "",
    )
