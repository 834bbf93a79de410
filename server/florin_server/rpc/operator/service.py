"""OperatorService: the calls of the installation's operator."""

from __future__ import annotations

from florin.v1 import operator_pb2_grpc

from florin_server.flows.app import App
from florin_server.flows.screening.lists import ScreeningImport
from florin_server.rpc.accounts.customers import CustomerCalls
from florin_server.rpc.accounts.partners import PartnerCalls
from florin_server.rpc.ledger.books import LedgerCalls
from florin_server.rpc.operator.leases import LeaseCalls
from florin_server.rpc.operator.quarantine import QuarantineCalls
from florin_server.rpc.operator.system import SystemCalls
from florin_server.rpc.payments.traced import OperatorPaymentCalls
from florin_server.rpc.payouts.held_money import HeldMoneyCalls
from florin_server.rpc.payouts.payouts import PayoutCalls
from florin_server.rpc.receipts.receipts import ReceiptKeyCalls
from florin_server.rpc.screening.lists import ScreeningCalls
from florin_server.rpc.webhooks.operator import OperatorWebhookCalls


class OperatorServicer(
    PartnerCalls,
    CustomerCalls,
    ScreeningCalls,
    OperatorPaymentCalls,
    PayoutCalls,
    HeldMoneyCalls,
    QuarantineCalls,
    LeaseCalls,
    ReceiptKeyCalls,
    LedgerCalls,
    SystemCalls,
    OperatorWebhookCalls,
    operator_pb2_grpc.OperatorServiceServicer,
):
    """All calls of the operator, grouped by noun."""

    def __init__(self, app: App, pepper: bytes) -> None:
        self._app = app
        self._pepper = pepper
        self._import = ScreeningImport()
