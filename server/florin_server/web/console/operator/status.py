"""The operator's first page: alarms, chains with their nodes, and executors."""

from __future__ import annotations

from collections.abc import Iterable

from florin.v1 import ledger_pb2, system_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.ledger.accounts import wallet
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.operator.alarms import list_alarms
from florin_server.web.console.operator.books import all_balances
from florin_server.web.console.paths import ROOT
from florin_server.web.console.site import ConsoleRequest


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the status of the installation."""
    system = await console_request.call(
        "OperatorService.GetSystemStatus", system_pb2.GetSystemStatusRequest()
    )
    senders = await console_request.call(
        "OperatorService.ListExecutors", system_pb2.ListExecutorsRequest()
    )
    # this page leaves out accounts of buyers and merchants: there can be many
    wallets = await all_balances(console_request, ledger_pb2.ACCOUNT_KIND_WALLET)
    return console_request.render_page(
        "operator/status",
        console_request.texts.plain("nav.status"),
        system=system,
        alarms=list_alarms(console_request.formatter, system),
        executors=senders.executors,
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
    return console_request.redirect_to(ROOT)


async def resume(console_request: ConsoleRequest) -> PlainResponse:
    """Resume an executor."""
    request = system_pb2.ResumeExecutorRequest(executor_id=console_request.form.text("executor"))
    await console_request.call("OperatorService.ResumeExecutor", request)
    return console_request.redirect_to(ROOT)


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
