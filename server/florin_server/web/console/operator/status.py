"""The operator's first page: alarms with what to do, chains with their nodes, and who sends."""

from __future__ import annotations

from collections.abc import Iterable

from florin.v1 import condition_pb2, ledger_pb2, system_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.domain.ledger.accounts import wallet
from florin_server.web.console.operator.books import all_balances
from florin_server.web.console.site import ROOT, Visit

_OK = condition_pb2.CONDITION_STATE_OK


async def show(visit: Visit) -> PlainAnswer:
    """How the installation is doing."""
    system = await visit.ask("OperatorService.GetSystemStatus", system_pb2.GetSystemStatusRequest())
    senders = await visit.ask("OperatorService.ListExecutors", system_pb2.ListExecutorsRequest())
    # accounts of buyers and merchants, which may be many, are not on this page
    wallets = await all_balances(visit, ledger_pb2.ACCOUNT_KIND_WALLET)
    alarms = [
        *(("", one) for one in _wrong(system.conditions)),
        *((chain.chain_id, one) for chain in system.chains for one in _wrong(chain.conditions)),
    ]
    alarms.sort(key=lambda one: -one[1].state)
    return visit.page(
        "operator/status",
        "Status",
        system=system,
        alarms=alarms,
        executors=senders.executors,
        coins={one.id: _coin(wallets, one.id) for one in senders.executors},
        burn=await all_balances(visit, ledger_pb2.ACCOUNT_KIND_EXPENSE),
    )


async def pause(visit: Visit) -> PlainAnswer:
    """Has an executor send nothing new."""
    request = system_pb2.PauseExecutorRequest(executor_id=visit.form.text("executor"))
    await visit.ask("OperatorService.PauseExecutor", request)
    return visit.see(ROOT)


async def resume(visit: Visit) -> PlainAnswer:
    """Lets it send again."""
    request = system_pb2.ResumeExecutorRequest(executor_id=visit.form.text("executor"))
    await visit.ask("OperatorService.ResumeExecutor", request)
    return visit.see(ROOT)


def _wrong(conditions: Iterable[condition_pb2.Condition]) -> list[condition_pb2.Condition]:
    return [one for one in conditions if one.state != _OK]


def _coin(
    balances: Iterable[ledger_pb2.LedgerBalance], account: str
) -> list[ledger_pb2.LedgerBalance]:
    """What a wallet of ours holds by the books, coin and tokens."""
    wanted = wallet(account).lower()
    return [one for one in balances if one.account.lower() == wanted]
