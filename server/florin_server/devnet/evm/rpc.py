"""The methods of one EVM chain behind JSON-RPC."""

from __future__ import annotations

from typing import Any

from florin_server.devnet.dispatch import BATCH_MAX, Answer, Dispatcher
from florin_server.devnet.evm import params
from florin_server.devnet.evm.chain import Chain
from florin_server.devnet.evm.control import ControlMethods
from florin_server.devnet.evm.methods import EthMethods
from florin_server.devnet.evm.mining import Mining
from florin_server.devnet.evm.views import hexed
from florin_server.devnet.faults import Faults
from florin_server.devnet.gifts import Gifts

__all__ = ["BATCH_MAX", "Answer", "RpcServer"]


class RpcServer(Dispatcher):
    """Answers calls about one chain. Used by one thread."""

    def __init__(self, chain: Chain, mining: Mining, gifts: Gifts) -> None:
        faults = Faults()

        def dropped(passed: list[Any]) -> str:
            return hexed(chain.decode(params.data(passed[0])).hash)

        table = {
            **EthMethods(chain, mining, faults).table,
            **ControlMethods(chain, mining, faults, gifts).table,
        }
        super().__init__(table, faults, dropped)
