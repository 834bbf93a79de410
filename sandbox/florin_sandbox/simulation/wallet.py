"""The wallet of a simulated buyer: the client's wallet, on the embedded chains and their clock."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from florin_client.wallet import Pause, WalletError
from florin_client.wallet import Wallet as Keys
from solders.keypair import Keypair

from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_sandbox.simulation.nodes import NodeRefusal, SandboxNode
from florin_sandbox.simulation.population import WalletKind

EVM: Final = f"eip155:{DEVNET.chain_id}"
SOLANA: Final = SOLANA_DEVNET.chain_id
# the asset (CAIP-19) with which each kind of wallet pays
ASSETS: Final = {
    WalletKind.DOLLARS: f"{EVM}/erc20:{DEVNET.token.address}",
    WalletKind.EUROS: f"{EVM}/erc20:{DEVNET.euro.address}",
    WalletKind.COIN: f"{EVM}/slip44:60",
    WalletKind.SOLANA: f"{SOLANA}/token:{SOLANA_DEVNET.tokens[0].address}",
    WalletKind.SOLANA_2022: f"{SOLANA}/token:{SOLANA_DEVNET.tokens[1].address}",
}

BlockWait = Callable[[], Awaitable[None]]


class SimulatedWallet:
    """A wallet whose keys derive from its name."""

    def __init__(
        self,
        wallet_kind: WalletKind,
        name: str,
        nodes: Mapping[str, SandboxNode],
        wait_for_block: BlockWait,
    ) -> None:
        secret = hashlib.sha256(f"florin simulation {name}".encode()).digest()
        solana = wallet_kind.chain == "solana"
        self._keys = (
            Keys(solana_key=bytes(Keypair.from_seed(secret))) if solana else Keys(evm_key=secret)
        )
        self._nodes = {EVM: nodes["evm"], SOLANA: nodes["solana"]}
        self._wait_for_block = wait_for_block
        self.account = self._keys.account(SOLANA if solana else EVM)

    @property
    def address(self) -> str:
        """Return the account without its chain."""
        return self.account.rpartition(":")[2]

    async def execute(
        self, option: Mapping[str, Any], actions: Sequence[dict[str, Any]], now_s: float
    ) -> list[str]:
        """Execute an option's actions; WalletError if they fail, or do not match the option."""
        asking = self._keys.start_execution(actions, option=option, now=now_s)
        answer = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as end:
                outputs: list[str] = end.value
                return outputs
            if isinstance(question, Pause):
                await self._wait_for_block()
                answer = None
                continue
            node = self._nodes[question.chain_id]
            try:
                answer = await node.call(question.method, *question.params)
            except NodeRefusal as refusal:
                raise WalletError(str(refusal)) from refusal
