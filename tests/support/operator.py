"""What an operator reads and does in a running service, by the operator's API alone."""

from __future__ import annotations

from typing import Any

from florin.v1 import ledger_pb2, system_pb2
from google.protobuf.message import Message

from tests.support.installation import open_operator
from tests.support.sanctions_import import import_list
from tests.support.service_harness import ServiceHarness

_PAGE = 1000


async def ask(desk: ServiceHarness, method: str, request: Message) -> Any:
    """Call the operator's API once; raise ApiCallError if it refuses."""
    async with open_operator(desk.service) as operator:
        return await operator.call(method, request)


async def get_relayer(desk: ServiceHarness, chain_id: str) -> str:
    """Return the address that sends the payments of a chain."""
    status = await ask(desk, "GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (relayer,) = (chain.relayer for chain in status.chains if chain.chain_id == chain_id)
    return relayer


async def get_treasury(desk: ServiceHarness, chain_id: str) -> str:
    """Return a chain's treasury: that of the settings, or the executor that is no relayer."""
    for chain in desk.service.settings.chains:
        if f"eip155:{chain.chain_id}" == chain_id:
            return chain.treasury.lower()
    relayer = await get_relayer(desk, chain_id)
    answer = await ask(desk, "ListExecutors", system_pb2.ListExecutorsRequest())
    (treasury,) = {
        address
        for executor in answer.executors
        for chain, _, address in [executor.id.rpartition(":")]
        if chain == chain_id and address != relayer
    }
    return treasury


async def get_balance(desk: ServiceHarness, account: str, asset: str) -> int:
    """Return the balance of a ledger account in an asset, 0 if nothing is booked there."""
    cursor = ""
    while True:
        request = ledger_pb2.ListBalancesRequest(cursor=cursor, limit=_PAGE)
        page = await ask(desk, "ListBalances", request)
        for balance in page.balances:
            if (balance.account, balance.asset) == (account, asset):
                return int(balance.amount)
        if not (cursor := page.next_cursor):
            return 0


async def check_ledger(desk: ServiceHarness) -> None:
    """Assert that the books balance."""
    answer = await ask(desk, "CheckLedger", ledger_pb2.CheckLedgerRequest())
    assert list(answer.problems) == []


async def list_entries(desk: ServiceHarness, payment_id: str) -> list[ledger_pb2.LedgerEntry]:
    """List what is booked for a payment."""
    request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
    return list((await ask(desk, "ListEntries", request)).entries)


async def pause(desk: ServiceHarness, executor_id: str) -> None:
    request = system_pb2.PauseExecutorRequest(executor_id=executor_id)
    await ask(desk, "PauseExecutor", request)


async def resume(desk: ServiceHarness, executor_id: str) -> None:
    request = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
    await ask(desk, "ResumeExecutor", request)


async def block(desk: ServiceHarness, address: str) -> None:
    """Block an address, by a screening list of its own."""
    async with open_operator(desk.service) as operator:
        await import_list(operator, address, name=f"test-{address[-8:].lower()}")
