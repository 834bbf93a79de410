"""What a node checks of a transaction before it looks at the sender."""

from __future__ import annotations

from typing import Any

from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.views import (
    GAS_LIMIT,
)


def check_fields(fields: Any, schedule: GasSchedule) -> None:
    """Check what geth checks before the sender."""
    if fields.gas > GAS_LIMIT:
        raise RpcFault("exceeds block gas limit")
    tip, fee = fields.max_priority_fee_per_gas, fields.max_fee_per_gas
    if tip > fee:
        raise RpcFault(
            "max priority fee per gas higher than max fee per gas: "
            f"maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee}"
        )
    if tip < 1:
        raise RpcFault(f"transaction underpriced: gas tip cap {tip}, minimum needed 1")
    if fields.gas < fields.intrinsic_gas:
        raise RpcFault(
            f"intrinsic gas too low: gas {fields.gas}, minimum needed {fields.intrinsic_gas}"
        )
    floor = schedule.compute_floor_gas(fields.data)
    if fields.gas < floor:
        raise RpcFault(
            f"insufficient gas for floor data gas cost: gas {fields.gas}, minimum needed {floor}"
        )
