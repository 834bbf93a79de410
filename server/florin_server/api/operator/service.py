"""OperatorService: the calls of the installation's operator."""

from __future__ import annotations

from florin.v1 import operator_pb2_grpc

from florin_server.api.accounts.customers import CustomerCalls
from florin_server.api.accounts.partners import PartnerCalls
from florin_server.api.context import ApiContext
from florin_server.api.ledger.books import LedgerCalls
from florin_server.api.operator.archive import ArchiveCalls
from florin_server.api.operator.leases import LeaseCalls
from florin_server.api.operator.quarantine import QuarantineCalls
from florin_server.api.operator.records import RecordCalls
from florin_server.api.operator.system import SystemCalls
from florin_server.api.payments.operator_calls import OperatorPaymentCalls
from florin_server.api.payouts.held_money import HeldMoneyCalls
from florin_server.api.payouts.payouts import PayoutCalls
from florin_server.api.receipts.receipts import ReceiptKeyCalls
from florin_server.api.screening.lists import ScreeningCalls
from florin_server.api.webhooks.operator import OperatorWebhookCalls
from florin_server.compliance.screening.service.lists import ScreeningImport


class OperatorServicer(
    PartnerCalls,
    CustomerCalls,
    ScreeningCalls,
    OperatorPaymentCalls,
    PayoutCalls,
    HeldMoneyCalls,
    ArchiveCalls,
    QuarantineCalls,
    LeaseCalls,
    ReceiptKeyCalls,
    LedgerCalls,
    SystemCalls,
    OperatorWebhookCalls,
    RecordCalls,
    operator_pb2_grpc.OperatorServiceServicer,
):
    """All calls of the operator, grouped by noun."""

    def __init__(self, app: ApiContext, pepper: bytes) -> None:
        self._app = app
        self._pepper = pepper
        self._import = ScreeningImport()
