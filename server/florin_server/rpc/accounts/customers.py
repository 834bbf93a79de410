"""The operator's calls about customers."""

from __future__ import annotations

from typing import Any

from florin.v1 import customer_pb2

from florin_server.domain.payments.payment import Payment
from florin_server.flows.accounts import customers
from florin_server.flows.app import App
from florin_server.rpc.payments.codec import payment_status
from florin_server.rpc.server.timestamps import timestamp
from florin_server.store.capture.collected_data import Collected, Way

_WAYS = {
    None: customer_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED,
    Way.FORM: customer_pb2.CUSTOMER_DATA_SOURCE_FORM,
    Way.INLINE: customer_pb2.CUSTOMER_DATA_SOURCE_WALLET,
}


class CustomerCalls:
    """Customers: what is kept about them told, and deleted."""

    _app: App

    async def ExportCustomer(
        self, request: customer_pb2.ExportCustomerRequest, context: Any
    ) -> customer_pb2.ExportCustomerResponse:
        """Tells everything that is kept about an account."""
        known = await customers.export(self._app, request.account)
        return customer_pb2.ExportCustomerResponse(
            account=known.account,
            payments=[_payment(payment, known.account) for payment in known.payments],
            collected_data=[_customer_data(one, data) for one, data in known.data],
        )

    async def EraseCustomer(
        self, request: customer_pb2.EraseCustomerRequest, context: Any
    ) -> customer_pb2.EraseCustomerResponse:
        """Deletes what is kept about an account, as far as the books allow."""
        erased = await customers.erase(self._app, request.account)
        return customer_pb2.EraseCustomerResponse(
            offers_erased=erased.offers,
            wallet_names_erased=erased.wallets,
            payments_kept=erased.kept,
            collected_data_erased=erased.data,
        )


def _customer_data(one: Collected, data: str | None) -> customer_pb2.CustomerData:
    return customer_pb2.CustomerData(
        payment_id=one.payment_id,
        collected_at=timestamp(one.created_at_us),
        kept_until=timestamp(one.kept_until_us),
        data_json=data or "",
        source=_WAYS[one.way],
        app=one.app,
        proven=one.proven,
    )


def _payment(payment: Payment, account: str) -> customer_pb2.CustomerPayment:
    pays = payment.payer == account
    named = pays and payment.provider_name != "unknown"
    return customer_pb2.CustomerPayment(
        payment_id=payment.id,
        status=payment_status(payment),
        created_at=timestamp(payment.created_at_us),
        payer=pays,
        wallet_name=payment.provider_name or "" if named else "",
        tx_id=payment.tx_id or "" if pays else "",
    )
