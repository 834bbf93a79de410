"""The operator's part of AdminService that is about the running installation."""

from __future__ import annotations

from typing import Any

from florin.v1 import admin_pb2, operator_pb2

import florin_server
from florin_server.flows import system
from florin_server.flows.app import App


class InstallationCalls:
    """Executors, customers, and how everything is doing."""

    _app: App

    async def GetSystemStatus(
        self, request: admin_pb2.GetSystemStatusRequest, context: Any
    ) -> admin_pb2.GetSystemStatusResponse:
        """Tells how the installation is doing."""
        chains = [
            admin_pb2.ChainStatus(
                chain_id=chain.chain_id,
                healthy=not chain.problem,
                head=chain.head,
                open_transactions=chain.open_transactions,
                relayer=chain.relayer,
                problem=chain.problem,
            )
            for chain in await system.chains(self._app)
        ]
        return admin_pb2.GetSystemStatusResponse(
            software_version=florin_server.__version__,
            chains=chains,
            processing_payments=await system.processing(self._app),
        )

    async def ListExecutors(
        self, request: operator_pb2.ListExecutorsRequest, context: Any
    ) -> operator_pb2.ListExecutorsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def PauseExecutor(
        self, request: operator_pb2.PauseExecutorRequest, context: Any
    ) -> operator_pb2.Executor:
        """SKELETON."""
        raise NotImplementedError

    async def ResumeExecutor(
        self, request: operator_pb2.ResumeExecutorRequest, context: Any
    ) -> operator_pb2.Executor:
        """SKELETON."""
        raise NotImplementedError

    async def ExportCustomer(
        self, request: operator_pb2.ExportCustomerRequest, context: Any
    ) -> operator_pb2.ExportCustomerResponse:
        """SKELETON."""
        raise NotImplementedError

    async def EraseCustomer(
        self, request: operator_pb2.EraseCustomerRequest, context: Any
    ) -> operator_pb2.EraseCustomerResponse:
        """SKELETON."""
        raise NotImplementedError
