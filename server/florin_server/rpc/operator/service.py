"""OperatorService: what the operator of the installation does."""

from __future__ import annotations

from florin.v1 import operator_pb2_grpc

from florin_server.flows.app import App
from florin_server.flows.screening.lists import Import
from florin_server.rpc.accounts.customers import CustomerCalls
from florin_server.rpc.accounts.partners import PartnerCalls
from florin_server.rpc.ledger.books import LedgerCalls
from florin_server.rpc.operator.leases import LeaseCalls
from florin_server.rpc.operator.quarantine import QuarantineCalls
from florin_server.rpc.operator.system import SystemCalls
from florin_server.rpc.payments.traced import TracedCalls
from florin_server.rpc.payouts.held_money import HeldCalls
from florin_server.rpc.payouts.payouts import PayoutCalls
from florin_server.rpc.receipts.receipts import ReceiptKeyCalls
from florin_server.rpc.screening.lists import ScreeningCalls
from florin_server.rpc.webhooks.operator import WebhookCalls


class OperatorServicer(
    PartnerCalls,
    CustomerCalls,
    ScreeningCalls,
    TracedCalls,
    PayoutCalls,
    HeldCalls,
    QuarantineCalls,
    LeaseCalls,
    ReceiptKeyCalls,
    LedgerCalls,
    SystemCalls,
    WebhookCalls,
    operator_pb2_grpc.OperatorServiceServicer,
):
    """All of the operator's calls, each part about one noun."""

    def __init__(self, app: App, pepper: bytes) -> None:
        self._app = app
        self._pepper = pepper
        self._import = Import()
