"""The operator's first page: alarms, chains with their nodes, and executors."""

from __future__ import annotations

from collections.abc import Iterable

from florin.v1 import ledger_pb2, system_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.ledger.accounts import wallet
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.operator import health
from florin_server.web.console.operator.alarms import list_alarms
from florin_server.web.console.operator.books import all_balances
from florin_server.web.console.paths import ROOT
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.undo import UndoOffer

_PAUSE, _RESUME = f"{ROOT}/executors/pause", f"{ROOT}/executors/resume"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the status of the installation."""
    system = await console_request.call(
        "OperatorService.GetSystemStatus", system_pb2.GetSystemStatusRequest()
    )
    senders = await console_request.call(
        "OperatorService.ListExecutors", system_pb2.ListExecutorsRequest()
    )
    strips = await health.list_strips(console_request)
    # this page leaves out accounts of buyers and merchants: there can be many
    wallets = await all_balances(console_request, ledger_pb2.ACCOUNT_KIND_WALLET)
    return console_request.render_page(
        "operator/status",
        console_request.texts.plain("nav.status"),
        system=system,
        alarms=list_alarms(console_request.formatter, system),
        executors=senders.executors,
        pills={
            chain.chain_id: health.find_chain_pill(console_request.texts, chain, senders.executors)
            for chain in system.chains
        },
        strips=strips,
        node_paths={chain_id: health.build_nodes_path(chain_id) for chain_id in strips},
        gauges=health.build_gauges(console_request.texts, system, senders.executors),
        coins={
            executor.id: _list_account_balances(wallets, executor.id)
            for executor in senders.executors
        },
        burn=await all_balances(console_request, ledger_pb2.ACCOUNT_KIND_EXPENSE),
    )


async def confirm_pause(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before an executor is paused."""
    executor_id = console_request.form.text("executor")
    listed = await console_request.call(
        "OperatorService.ListExecutors", system_pb2.ListExecutorsRequest()
    )
    executors = [executor for executor in listed.executors if executor.id == executor_id]
    texts = console_request.texts
    return ActionConfirmation(
        title=texts.plain("executor.pause.ask"),
        button=texts.plain("executor.pause.button"),
        back=ROOT,
        facts=(
            (texts.plain("account"), executor_id),
            *(
                (texts.plain("executor.open"), str(executor.open_transactions))
                for executor in executors
            ),
        ),
        warning=texts.plain("executor.pause.warning"),
    )


async def pause(console_request: ConsoleRequest) -> PlainResponse:
    """Pause an executor: it sends nothing new."""
    request = system_pb2.PauseExecutorRequest(executor_id=console_request.form.text("executor"))
    await console_request.call("OperatorService.PauseExecutor", request)
    offer = UndoOffer(
        "undo.executor_paused",
        _RESUME,
        {"executor": request.executor_id},
    )
    return console_request.redirect_with_undo(ROOT, offer)


async def resume(console_request: ConsoleRequest) -> PlainResponse:
    """Resume an executor."""
    request = system_pb2.ResumeExecutorRequest(executor_id=console_request.form.text("executor"))
    await console_request.call("OperatorService.ResumeExecutor", request)
    offer = UndoOffer(
        "undo.executor_resumed",
        _PAUSE,
        {"executor": request.executor_id},
    )
    return console_request.redirect_with_undo(ROOT, offer)


def _list_account_balances(
    balances: Iterable[ledger_pb2.LedgerBalance], account: str
) -> list[ledger_pb2.LedgerBalance]:
    """Return the book balances of a wallet, its coin and tokens."""
    wallet_account = wallet(account).lower()
    return [
        ledger_balance
        for ledger_balance in balances
        if ledger_balance.account.lower() == wallet_account
    ]
