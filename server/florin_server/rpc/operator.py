"""OperatorService: what the operator of the installation does."""

from __future__ import annotations

from florin.v1 import operator_pb2_grpc

from florin_server.flows.app import App
from florin_server.flows.screening.lists import Import
from florin_server.rpc.customers import CustomerCalls
from florin_server.rpc.held import HeldCalls
from florin_server.rpc.ledger import LedgerCalls
from florin_server.rpc.partners import PartnerCalls
from florin_server.rpc.payouts import PayoutCalls
from florin_server.rpc.screening import ScreeningCalls
from florin_server.rpc.system import SystemCalls


class OperatorServicer(
    PartnerCalls,
    CustomerCalls,
    ScreeningCalls,
    PayoutCalls,
    HeldCalls,
    LedgerCalls,
    SystemCalls,
    operator_pb2_grpc.OperatorServiceServicer,
):
    """All of the operator's calls, each part about one noun."""

    def __init__(self, app: App, pepper: bytes) -> None:
        self._app = app
        self._pepper = pepper
        self._import = Import()
