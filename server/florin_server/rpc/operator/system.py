"""The operator's calls about the running installation."""

from __future__ import annotations

from typing import Any

from florin.v1 import condition_pb2, system_pb2

import florin_server
from florin_server.domain.conditions import Condition, State
from florin_server.domain.health import describe
from florin_server.flows.app import App
from florin_server.flows.limits import gas_budgets
from florin_server.flows.limits.gas_budgets import HourlyBudgets
from florin_server.flows.operator import executors, system
from florin_server.rails.types import NodeState
from florin_server.rpc.server.timestamps import timestamp

_STATES = {
    State.OK: condition_pb2.CONDITION_STATE_OK,
    State.NOTICE: condition_pb2.CONDITION_STATE_NOTICE,
    State.WARNING: condition_pb2.CONDITION_STATE_WARNING,
    State.CRITICAL: condition_pb2.CONDITION_STATE_CRITICAL,
}


class SystemCalls:
    """Executors, and how everything is doing."""

    _app: App

    async def GetSystemStatus(
        self, request: system_pb2.GetSystemStatusRequest, context: Any
    ) -> system_pb2.GetSystemStatusResponse:
        """Tells how the installation is doing."""
        status = await system.status(self._app)
        chains = [
            system_pb2.ChainStatus(
                chain_id=chain.chain_id,
                healthy=not chain.problem,
                head=chain.head,
                open_transactions=chain.open_transactions,
                relayer=chain.relayer,
                problem=chain.problem,
                nodes=[_node(node) for node in chain.nodes],
                failed_gas=_gas(chain.gas, gas_budgets.budgets_of(self._app, chain.chain_id)),
                conditions=[_condition(one) for one in chain.conditions],
            )
            for chain in status.chains
        ]
        return system_pb2.GetSystemStatusResponse(
            software_version=florin_server.__version__,
            chains=chains,
            processing_payments=status.processing,
            held_payments=status.held_payments,
            screening_problem=describe(status.conditions),
            conditions=[_condition(one) for one in status.conditions],
        )

    async def ListExecutors(
        self, request: system_pb2.ListExecutorsRequest, context: Any
    ) -> system_pb2.ListExecutorsResponse:
        """Lists who settles payments."""
        found = await executors.listed(self._app)
        return system_pb2.ListExecutorsResponse(executors=[_executor(one) for one in found])

    async def PauseExecutor(
        self, request: system_pb2.PauseExecutorRequest, context: Any
    ) -> system_pb2.Executor:
        """Stops an executor from sending anything new."""
        return _executor(await executors.pause(self._app, request.executor_id))

    async def ResumeExecutor(
        self, request: system_pb2.ResumeExecutorRequest, context: Any
    ) -> system_pb2.Executor:
        """Lets an executor send again."""
        return _executor(await executors.resume(self._app, request.executor_id))


def _gas(gas: system.GasStatus, most: HourlyBudgets) -> system_pb2.FailedGas:
    return system_pb2.FailedGas(
        failed=gas.failed,
        failed_max=most.chain,
        opened=gas.opened,
        opened_max=most.opened_chain,
        app_failed_max=most.app,
        app_opened_max=most.opened_app,
        payer_failed_max=most.payer,
        paused_payers=gas.paused_payers,
        paused_payments=gas.paused,
        given_up_payments=gas.given_up,
    )


def _condition(one: Condition) -> condition_pb2.Condition:
    return condition_pb2.Condition(
        name=one.name,
        state=_STATES[one.state],
        reason=one.reason,
        since=timestamp(one.since_us),
    )


def _node(node: NodeState) -> system_pb2.NodeStatus:
    return system_pb2.NodeStatus(
        name=node.name,
        head=node.head,
        lag=node.lag,
        latency_ms=node.latency_ms,
        error_rate=node.error_rate,
        problem=node.problem,
    )


def _executor(executor: executors.Executor) -> system_pb2.Executor:
    paused_at_us = executor.paused_at_us
    return system_pb2.Executor(
        id=executor.id,
        paused=paused_at_us is not None,
        paused_at=None if paused_at_us is None else timestamp(paused_at_us),
        open_transactions=executor.open_transactions,
    )
