"""The operator's calls about the running installation."""

from __future__ import annotations

from typing import Any

from florin.v1 import condition_pb2, system_pb2

import florin_server
from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.conditions import Condition, ConditionState
from florin_server.domain.health import describe_conditions
from florin_server.domain.node_hours import HOUR_US, NodeHour
from florin_server.domain.settlement.runway import Runway
from florin_server.features.monitoring.service import node_history, runways, system
from florin_server.money.settlement import service as gas_budgets
from florin_server.money.settlement.service import HourlyGasBudgets
from florin_server.operations.service import executors
from florin_server.rails.types import NodeState

_STATES = {
    ConditionState.OK: condition_pb2.CONDITION_STATE_OK,
    ConditionState.NOTICE: condition_pb2.CONDITION_STATE_NOTICE,
    ConditionState.WARNING: condition_pb2.CONDITION_STATE_WARNING,
    ConditionState.CRITICAL: condition_pb2.CONDITION_STATE_CRITICAL,
}


class SystemCalls:
    """Executors, and the state of the installation."""

    _app: ApiContext

    async def GetSystemStatus(
        self, request: system_pb2.GetSystemStatusRequest, context: Any
    ) -> system_pb2.GetSystemStatusResponse:
        """Return the state of the installation."""
        status = await system.get_status(self._app)
        chains = [
            system_pb2.ChainStatus(
                chain_id=chain.chain_id,
                healthy=not chain.problem,
                head=chain.head,
                open_transactions=chain.open_transactions,
                relayer=chain.relayer,
                problem=chain.problem,
                nodes=[_to_node_status(node) for node in chain.nodes],
                failed_gas=_to_failed_gas(
                    chain.gas, gas_budgets.get_budgets(self._app, chain.chain_id)
                ),
                conditions=[_to_condition(condition) for condition in chain.conditions],
            )
            for chain in status.chains
        ]
        return system_pb2.GetSystemStatusResponse(
            software_version=florin_server.__version__,
            chains=chains,
            processing_payments=status.processing_payments,
            held_payments=status.held_payments,
            screening_problem=describe_conditions(status.conditions),
            conditions=[_to_condition(condition) for condition in status.conditions],
        )

    async def ListNodeHistory(
        self, request: system_pb2.ListNodeHistoryRequest, context: Any
    ) -> system_pb2.ListNodeHistoryResponse:
        """List the last 48 hours of the nodes of all chains."""
        histories = await node_history.list_node_history(self._app)
        return system_pb2.ListNodeHistoryResponse(
            nodes=[
                system_pb2.NodeHistory(
                    chain_id=history.chain_id,
                    name=history.name,
                    hours=[_to_node_hour(hour) for hour in history.hours],
                )
                for history in histories
            ]
        )

    async def ListExecutors(
        self, request: system_pb2.ListExecutorsRequest, context: Any
    ) -> system_pb2.ListExecutorsResponse:
        """List the executors that settle payments."""
        found_executors = await executors.list_executors(self._app)
        by_executor = await runways.list_runways(self._app)
        return system_pb2.ListExecutorsResponse(
            executors=[
                _to_executor(executor, by_executor.get(executor.id)) for executor in found_executors
            ]
        )

    async def PauseExecutor(
        self, request: system_pb2.PauseExecutorRequest, context: Any
    ) -> system_pb2.Executor:
        """Pause new sends of an executor."""
        return await self._describe_executor(await executors.pause(self._app, request.executor_id))

    async def ResumeExecutor(
        self, request: system_pb2.ResumeExecutorRequest, context: Any
    ) -> system_pb2.Executor:
        """Resume an executor."""
        return await self._describe_executor(await executors.resume(self._app, request.executor_id))

    async def _describe_executor(self, executor: executors.ExecutorStatus) -> system_pb2.Executor:
        by_executor = await runways.list_runways(self._app)
        return _to_executor(executor, by_executor.get(executor.id))


def _to_failed_gas(gas: system.GasStatus, budgets: HourlyGasBudgets) -> system_pb2.FailedGas:
    return system_pb2.FailedGas(
        failed=gas.failed_gas,
        failed_max=budgets.chain,
        opened=gas.opening_gas,
        opened_max=budgets.opening_chain,
        app_failed_max=budgets.app,
        app_opened_max=budgets.opening_app,
        payer_failed_max=budgets.payer,
        paused_payers=gas.paused_payer_payments,
        paused_payments=gas.paused_payments,
        given_up_payments=gas.abandoned_payments,
    )


def _to_condition(condition: Condition) -> condition_pb2.Condition:
    return condition_pb2.Condition(
        name=condition.name,
        state=_STATES[condition.state],
        reason=condition.reason,
        since=to_timestamp(condition.since_us),
    )


def _to_node_status(node: NodeState) -> system_pb2.NodeStatus:
    return system_pb2.NodeStatus(
        name=node.name,
        head=node.head,
        lag=node.lag,
        latency_ms=node.latency_ms,
        error_rate=node.error_rate,
        problem=node.problem,
    )


def _to_node_hour(hour: NodeHour) -> system_pb2.NodeHour:
    return system_pb2.NodeHour(
        start=to_timestamp(hour.hour * HOUR_US),
        checks=hour.checks,
        healthy_checks=hour.healthy_checks,
        lag=hour.lag,
        lag_max=hour.lag_max,
        answers=sum(hour.answers),
        median_ms=hour.estimate_ms(0.5),
        p95_ms=hour.estimate_ms(0.95),
        errors=[
            system_pb2.NodeErrorCount(kind=kind, count=count)
            for kind, count in hour.errors.items()
            if count
        ],
    )


def _to_executor(executor: executors.ExecutorStatus, runway: Runway | None) -> system_pb2.Executor:
    paused_at_us = executor.paused_at_us
    return system_pb2.Executor(
        id=executor.id,
        paused=paused_at_us is not None,
        paused_at=None if paused_at_us is None else to_timestamp(paused_at_us),
        open_transactions=executor.open_transactions,
        runway=None if runway is None else _to_runway(runway),
    )


def _to_runway(runway: Runway) -> system_pb2.ExecutorRunway:
    cost = runway.transaction_cost
    return system_pb2.ExecutorRunway(
        account=runway.account,
        asset=runway.asset,
        balance="" if runway.balance is None else str(runway.balance),
        transactions=runway.transactions,
        items=runway.items,
        transaction_cost=None if cost is None else str(cost),
        items_left=runway.items_left,
        seconds_left=runway.seconds_left,
    )
