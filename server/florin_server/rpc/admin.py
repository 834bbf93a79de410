"""AdminService: what a partner manages itself, and what the operator does."""

from __future__ import annotations

from florin.v1 import admin_pb2_grpc

from florin_server.flows.app import App
from florin_server.flows.screening.lists import Import
from florin_server.rpc.account import AccountCalls
from florin_server.rpc.codec import Codec
from florin_server.rpc.held import HeldCalls
from florin_server.rpc.installation import InstallationCalls
from florin_server.rpc.ledger import LedgerCalls
from florin_server.rpc.operator import OperatorCalls
from florin_server.rpc.payouts import PayoutCalls
from florin_server.rpc.screening import ScreeningCalls


class AdminServicer(
    AccountCalls,
    OperatorCalls,
    InstallationCalls,
    ScreeningCalls,
    PayoutCalls,
    HeldCalls,
    LedgerCalls,
    admin_pb2_grpc.AdminServiceServicer,
):
    """All parts; which of them a listener answers is decided before a call comes here."""

    def __init__(self, app: App, answers: Codec, pepper: bytes) -> None:
        self._app = app
        self._codec = answers
        self._pepper = pepper
        self._import = Import()
