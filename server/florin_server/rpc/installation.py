"""The operator's part of AdminService that is about the running installation."""

from __future__ import annotations

from typing import Any

from florin.v1 import admin_pb2, condition_pb2, operator_pb2

import florin_server
from florin_server.config import FailedGasSettings
from florin_server.domain.conditions import Condition, State
from florin_server.domain.health import describe
from florin_server.domain.payments.payment import Payment
from florin_server.flows.accounts import customers
from florin_server.flows.app import App
from florin_server.flows.operator import executors, health, system
from florin_server.rails.types import NodeState
from florin_server.rpc.codec import payment_status, timestamp
from florin_server.store.capture.collected_data import Collected, Way

_WAYS = {
    None: operator_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED,
    Way.FORM: operator_pb2.CUSTOMER_DATA_SOURCE_FORM,
    Way.INLINE: operator_pb2.CUSTOMER_DATA_SOURCE_WALLET,
}
_STATES = {
    State.OK: condition_pb2.CONDITION_STATE_OK,
    State.NOTICE: condition_pb2.CONDITION_STATE_NOTICE,
    State.WARNING: condition_pb2.CONDITION_STATE_WARNING,
    State.CRITICAL: condition_pb2.CONDITION_STATE_CRITICAL,
}


class InstallationCalls:
    """Executors, customers, and how everything is doing."""

    _app: App

    async def GetSystemStatus(
        self, request: admin_pb2.GetSystemStatusRequest, context: Any
    ) -> admin_pb2.GetSystemStatusResponse:
        """Tells how the installation is doing."""
        conditions = await health.of_installation(self._app)
        chains = [
            admin_pb2.ChainStatus(
                chain_id=chain.chain_id,
                healthy=not chain.problem,
                head=chain.head,
                open_transactions=chain.open_transactions,
                relayer=chain.relayer,
                problem=chain.problem,
                nodes=[_node(node) for node in chain.nodes],
                failed_gas=_gas(chain.gas, self._app.settings.failed_gas),
                conditions=[_condition(one) for one in chain.conditions],
            )
            for chain in await system.chains(self._app)
        ]
        return admin_pb2.GetSystemStatusResponse(
            software_version=florin_server.__version__,
            chains=chains,
            processing_payments=await system.processing(self._app),
            held_payments=await system.held_payments(self._app),
            screening_problem=describe(conditions),
            conditions=[_condition(one) for one in conditions],
        )

    async def ListExecutors(
        self, request: operator_pb2.ListExecutorsRequest, context: Any
    ) -> operator_pb2.ListExecutorsResponse:
        """Lists who settles payments."""
        found = await executors.listed(self._app)
        return operator_pb2.ListExecutorsResponse(executors=[_executor(one) for one in found])

    async def PauseExecutor(
        self, request: operator_pb2.PauseExecutorRequest, context: Any
    ) -> operator_pb2.Executor:
        """Stops an executor from sending anything new."""
        return _executor(await executors.pause(self._app, request.executor_id))

    async def ResumeExecutor(
        self, request: operator_pb2.ResumeExecutorRequest, context: Any
    ) -> operator_pb2.Executor:
        """Lets an executor send again."""
        return _executor(await executors.resume(self._app, request.executor_id))

    async def ExportCustomer(
        self, request: operator_pb2.ExportCustomerRequest, context: Any
    ) -> operator_pb2.ExportCustomerResponse:
        """Tells everything that is kept about an account."""
        known = await customers.export(self._app, request.account)
        return operator_pb2.ExportCustomerResponse(
            account=known.account,
            payments=[_payment(payment, known.account) for payment in known.payments],
            collected_data=[_told(one, data) for one, data in known.data],
        )

    async def EraseCustomer(
        self, request: operator_pb2.EraseCustomerRequest, context: Any
    ) -> operator_pb2.EraseCustomerResponse:
        """Deletes what is kept about an account, as far as the books allow."""
        erased = await customers.erase(self._app, request.account)
        return operator_pb2.EraseCustomerResponse(
            offers_erased=erased.offers,
            wallet_names_erased=erased.wallets,
            payments_kept=erased.kept,
            collected_data_erased=erased.data,
        )


def _gas(gas: system.GasStatus, most: FailedGasSettings) -> admin_pb2.FailedGas:
    return admin_pb2.FailedGas(
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


def _node(node: NodeState) -> admin_pb2.NodeStatus:
    return admin_pb2.NodeStatus(
        name=node.name,
        head=node.head,
        lag=node.lag,
        latency_ms=node.latency_ms,
        error_rate=node.error_rate,
        problem=node.problem,
    )


def _executor(executor: executors.Executor) -> operator_pb2.Executor:
    paused_at_us = executor.paused_at_us
    return operator_pb2.Executor(
        id=executor.id,
        paused=paused_at_us is not None,
        paused_at=None if paused_at_us is None else timestamp(paused_at_us),
        open_transactions=executor.open_transactions,
    )


def _told(one: Collected, data: str | None) -> operator_pb2.CustomerData:
    return operator_pb2.CustomerData(
        payment_id=one.payment_id,
        collected_at=timestamp(one.created_at_us),
        kept_until=timestamp(one.kept_until_us),
        data_json=data or "",
        source=_WAYS[one.way],
        app=one.app,
        proven=one.proven,
    )


def _payment(payment: Payment, account: str) -> operator_pb2.CustomerPayment:
    pays = payment.payer == account
    named = pays and payment.provider_name != "unknown"
    return operator_pb2.CustomerPayment(
        payment_id=payment.id,
        status=payment_status(payment),
        created_at=timestamp(payment.created_at_us),
        payer=pays,
        wallet_name=payment.provider_name or "" if named else "",
        tx_id=payment.tx_id or "" if pays else "",
    )
