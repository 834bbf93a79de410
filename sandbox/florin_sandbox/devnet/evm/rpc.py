"""The methods of one EVM chain behind JSON-RPC."""

from __future__ import annotations

from typing import Any

from florin_sandbox.devnet.dispatch import BATCH_MAX, DelayedAnswer, RpcDispatcher
from florin_sandbox.devnet.evm import params
from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain
from florin_sandbox.devnet.evm.control import EvmControlMethods
from florin_sandbox.devnet.evm.methods import EthMethods
from florin_sandbox.devnet.evm.mining import BlockProducer
from florin_sandbox.devnet.evm.views import to_hex
from florin_sandbox.devnet.faucet_limits import GiftBudgets
from florin_sandbox.devnet.faults import FaultPlan

__all__ = ["BATCH_MAX", "DelayedAnswer", "EvmRpcServer"]


class EvmRpcServer(RpcDispatcher):
    """Answer calls about one chain. Used by one thread."""

    def __init__(self, chain: EmbeddedEvmChain, mining: BlockProducer, gifts: GiftBudgets) -> None:
        faults = FaultPlan()

        def dropped(passed: list[Any]) -> str:
            return to_hex(chain.decode_transaction(params.parse_data(passed[0])).hash)

        table = {
            **EthMethods(chain, mining, faults).methods,
            **EvmControlMethods(chain, mining, faults, gifts).methods,
        }
        super().__init__(table, faults, dropped)
