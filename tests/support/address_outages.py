"""Nodes that lack something of what payments at addresses and by x402 need, for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from florin_server.domain.payments.deposits import Deposit
from florin_server.money.settlement.worker import address_payments
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.deposits import EvmDepositReader
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.sending.facilitator import EvmTransferFacilitator
from florin_server.rails.facilitation import FacilitatedTransfer
from florin_server.rails.types import AddressActivity, RailUnavailable


def hide_coin(patch: pytest.MonkeyPatch) -> None:
    """Let no node have the balances of its newest blocks."""

    async def fail(*_: Any) -> list[Deposit]:
        raise RailUnavailable("the node lacks the state of its newest blocks")

    patch.setattr(EvmDepositReader, "find_coin_deposits", fail)


def hide_logs(patch: pytest.MonkeyPatch, address: str) -> None:
    """Let no node have the logs of queries that name an address."""
    read = EvmDepositReader.read_activity

    async def read_others(
        reader: EvmDepositReader, addresses: Sequence[str], first: int
    ) -> AddressActivity:
        if address.lower() in addresses:
            raise RailUnavailable("history has been pruned for this block")
        return await read(reader, addresses, first)

    patch.setattr(EvmDepositReader, "read_activity", read_others)


def hide_assets(patch: pytest.MonkeyPatch) -> None:
    """Let the chain be as it is after a start at which no node answered."""
    patch.setattr(EvmRail, "assets", property(lambda _: {}))


def delay_complete_loads(patch: pytest.MonkeyPatch) -> None:
    """Let the store be read for all addresses only once in a time longer than payments live."""
    patch.setattr(address_payments, "_RELOAD_US", 2_000_000_000)


def hide_receipt(patch: pytest.MonkeyPatch, tx_hash: str, times: int) -> list[str]:
    """Let nodes lack a receipt at first; return the list of hashes that were hidden so far."""
    call, hidden = EvmNode.call, []

    async def call_early(node: EvmNode, method: str, *params: Any) -> Any:
        is_asked = method == "eth_getTransactionReceipt" and params == (tx_hash,)
        if is_asked and len(hidden) < times:
            hidden.append(tx_hash)
            return None
        return await call(node, method, *params)

    patch.setattr(EvmNode, "call", call_early)
    return hidden


def hide_outcomes(patch: pytest.MonkeyPatch) -> None:
    """Let nodes return nothing about transfers that were sent for payers."""
    unread = AsyncMock(side_effect=RailUnavailable("no node has the receipt"))
    patch.setattr(EvmTransferFacilitator, "find_outcome", unread)


def run_on_a_lost_fork(patch: pytest.MonkeyPatch, blocks: int) -> None:
    """Let dry runs see so many more blocks, which a reorganization removes."""
    check = EvmTransferFacilitator.check

    async def check_ahead(
        facilitator: EvmTransferFacilitator, transfer: FacilitatedTransfer, now_s: int
    ) -> FacilitatedTransfer:
        checked = await check(facilitator, transfer, now_s)
        return replace(checked, head=checked.head + blocks)

    patch.setattr(EvmTransferFacilitator, "check", check_ahead)
