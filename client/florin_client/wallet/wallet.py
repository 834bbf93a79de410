"""The wallet: keys, the accounts that are theirs, and executing what an option asks for."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Self

from solders.keypair import Keypair

from florin_client.wallet.actions import AnyAction, Step, WalletError, steps_of
from florin_client.wallet.chains import Asking, JsonRpc, Pause, Question
from florin_client.wallet.evm import EvmKey
from florin_client.wallet.solana import SolanaKey

_SIGNED_EVM = frozenset({"eth_signTypedData_v4", "personal_sign"})
# a transaction that is not mined by then was not worth its fee
_LOOKS, _LOOK_S = 120, 1.0


class Wallet:
    """Keys for EVM chains, for Solana, or for both, and the nodes to send transactions to.

    `evm_key` is 32 bytes or their hex, `solana_key` a key pair of 64 bytes or its base58.
    `rpc_urls` are JSON-RPC URLs by CAIP-2 chain; only options that make the wallet send need one.
    """

    def __init__(
        self,
        *,
        evm_key: str | bytes | None = None,
        solana_key: str | bytes | None = None,
        rpc_urls: Mapping[str, str] | None = None,
    ) -> None:
        self._evm = None if evm_key is None else EvmKey(evm_key)
        self._solana = None if solana_key is None else SolanaKey(solana_key)
        self._nodes = JsonRpc(dict(rpc_urls or {}))

    @classmethod
    def create(cls, *, rpc_urls: Mapping[str, str] | None = None) -> Self:
        """A wallet with new keys of both kinds."""
        evm_key, solana_key = secrets.token_bytes(32), bytes(Keypair())
        return cls(evm_key=evm_key, solana_key=solana_key, rpc_urls=rpc_urls)

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Wallet({', '.join(repr(one) for one in (self._evm, self._solana) if one)})"

    @property
    def evm(self) -> EvmKey:
        """The key for EVM chains; WalletError if there is none."""
        if self._evm is None:
            raise WalletError("the wallet has no key for EVM chains")
        return self._evm

    @property
    def solana(self) -> SolanaKey:
        """The key for Solana; WalletError if there is none."""
        if self._solana is None:
            raise WalletError("the wallet has no key for Solana")
        return self._solana

    def account(self, chain_id: str) -> str:
        """The account (CAIP-10) on a chain (CAIP-2)."""
        solana = chain_id.startswith("solana:")
        return f"{chain_id}:{self.solana.address if solana else self.evm.address}"

    def accounts(self, *chain_ids: str) -> list[str]:
        """The same for some chains, as options are asked for."""
        return [self.account(chain_id) for chain_id in chain_ids]

    def execute(self, actions: Iterable[AnyAction]) -> list[str]:
        """The outputs of actions, one each, executed in their order; as a confirmation wants them.

        WalletError for what the wallet cannot do, and for what is not asked of its own accounts.
        A transaction is sent once those before it are mined, and its hash told at once.
        """
        return self._nodes.run(self.executing(actions))

    def executing(self, actions: Iterable[AnyAction]) -> Asking[list[str]]:
        """The same as questions to chains, for whoever asks them in another way."""
        outputs, waits = [], dict[str, str]()
        for step in steps_of(actions):
            if step.method == "eth_sendTransaction":
                if step.chain_id in waits:
                    yield from _mined(step.chain_id, waits[step.chain_id])
                waits[step.chain_id] = yield from self.evm.send(step)
                outputs.append(waits[step.chain_id])
            else:
                outputs.append(self._signed(step))
        return outputs

    def _signed(self, step: Step) -> str:
        if step.method in _SIGNED_EVM:
            return self.evm.sign(step)
        if step.method == "solana_signTransaction":
            return self.solana.sign(step)
        raise WalletError(f"the wallet cannot {step.method}")


def _mined(chain_id: str, tx_hash: str) -> Asking[None]:
    """Returns once a transaction is mined; WalletError if it fails, or is not."""
    for _ in range(_LOOKS):
        receipt: Any = yield Question(chain_id, "eth_getTransactionReceipt", (tx_hash,))
        if receipt is not None:
            if int(receipt["status"], 16) != 1:
                raise WalletError(f"transaction {tx_hash} failed on {chain_id}")
            return
        yield Pause(_LOOK_S)
    raise WalletError(f"transaction {tx_hash} is not mined on {chain_id}")
