"""A buyer's wallet: the client's own, driven by the embedded chains and their time."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from florin_client.wallet import Pause, WalletError
from florin_client.wallet import Wallet as Keys
from solders.keypair import Keypair

from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.simulation.nodes import Node, NodeRefused
from florin_server.simulation.population import Purse

EVM: Final = f"eip155:{DEVNET.chain_id}"
SOLANA: Final = SOLNET.chain_id
# what each purse pays with, by CAIP-19
ASSETS: Final = {
    Purse.DOLLARS: f"{EVM}/erc20:{DEVNET.token.address}",
    Purse.EUROS: f"{EVM}/erc20:{DEVNET.euro.address}",
    Purse.COIN: f"{EVM}/slip44:60",
    Purse.SOLANA: f"{SOLANA}/token:{SOLNET.tokens[0].address}",
    Purse.SOLANA_2022: f"{SOLANA}/token:{SOLNET.tokens[1].address}",
}

Rest = Callable[[], Awaitable[None]]


class Wallet:
    """The keys of a purse; the same name has the same. `rest` returns when a block may be new."""

    def __init__(self, purse: Purse, name: str, nodes: Mapping[str, Node], rest: Rest) -> None:
        secret = hashlib.sha256(f"florin simulation {name}".encode()).digest()
        solana = purse.chain == "solana"
        self._keys = (
            Keys(solana_key=bytes(Keypair.from_seed(secret))) if solana else Keys(evm_key=secret)
        )
        self._nodes = {EVM: nodes["evm"], SOLANA: nodes["solana"]}
        self._rest = rest
        self.account = self._keys.account(SOLANA if solana else EVM)

    @property
    def address(self) -> str:
        """The account without its chain."""
        return self.account.rpartition(":")[2]

    async def perform(
        self, option: Mapping[str, Any], actions: Sequence[dict[str, Any]], now_s: float
    ) -> list[str]:
        """Execute an option's actions; WalletError if they cannot be done, or do not fit it."""
        asking = self._keys.executing(actions, option=option, now=now_s)
        answer = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as end:
                outputs: list[str] = end.value
                return outputs
            if isinstance(question, Pause):
                await self._rest()
                answer = None
                continue
            node = self._nodes[question.chain_id]
            try:
                answer = await node.ask(question.method, *question.params)
            except NodeRefused as refusal:
                raise WalletError(str(refusal)) from refusal
