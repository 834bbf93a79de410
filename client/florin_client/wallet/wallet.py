"""The wallet: keys, the accounts that are theirs, and executing what an option asks for."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Self

from solders.keypair import Keypair

from florin_client.wallet.actions import AnyAction, WalletError
from florin_client.wallet.chains import Asking, JsonRpc, Pause, Question
from florin_client.wallet.evm import EvmKey, FeeBudget, default_max_fee
from florin_client.wallet.evm_steps import Authorization, Permit
from florin_client.wallet.plan import PaymentPlan, plan_payment
from florin_client.wallet.solana import SolanaKey
from florin_client.wallet.solana_steps import SolanaPayment
from florin_client.wallet.terms import AnyOption

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

    def execute(
        self, actions: Iterable[AnyAction], *, option: AnyOption, max_fee: int | None = None
    ) -> list[str]:
        """Execute the actions of an option in order; one output each, as a confirmation wants them.

        WalletError for what the wallet cannot do, and unless the actions take exactly what the
        option says (`plan_payment`). A transaction is sent once those before it are mined; all of
        them together cost `max_fee` in minor units of the coin at most (`default_max_fee`).
        """
        return self._nodes.run(self.executing(actions, option=option, max_fee=max_fee))

    def execute_plan(self, plan: PaymentPlan, *, max_fee: int | None = None) -> list[str]:
        """Execute a plan that was shown to whoever pays; its outputs."""
        return self._nodes.run(self.executing_plan(plan, max_fee=max_fee))

    def executing(
        self,
        actions: Iterable[AnyAction],
        *,
        option: AnyOption,
        max_fee: int | None = None,
        now: float | None = None,
    ) -> Asking[list[str]]:
        """Execute as `execute` does, asking chains by a generator; `now` in Unix seconds."""
        plan = plan_payment(option, actions, now=now)
        return (yield from self.executing_plan(plan, max_fee=max_fee))

    def executing_plan(self, plan: PaymentPlan, *, max_fee: int | None = None) -> Asking[list[str]]:
        """Execute a plan as `execute_plan` does, asking chains by a generator."""
        terms = plan.terms
        own = self.evm.address.lower() if terms.is_evm else self.solana.address
        if terms.account != own:
            raise WalletError(f"{terms.account} is not the wallet's {own}")
        coin = terms.amount if terms.token is None else None
        budget = FeeBudget(default_max_fee(terms.chain_id, coin) if max_fee is None else max_fee)
        outputs, sent = [], ""
        for step in plan.steps:
            if isinstance(step, SolanaPayment):
                outputs.append(self.solana.sign(step))
            elif isinstance(step, Authorization | Permit):
                outputs.append(self.evm.sign(step))
            else:
                if sent:
                    yield from _mined(terms.chain_id, sent)
                sent = yield from self.evm.send(terms.chain_id, step, budget)
                outputs.append(sent)
        return outputs


def _mined(chain_id: str, tx_hash: str) -> Asking[None]:
    """Returns once a transaction is mined; WalletError if it fails, or is not."""
    for _ in range(_LOOKS):
        receipt: Any = yield Question(chain_id, "eth_getTransactionReceipt", (tx_hash,))
        if receipt is not None:
            if not isinstance(receipt, dict) or receipt.get("status") != "0x1":
                raise WalletError(f"transaction {tx_hash} failed on {chain_id}")
            return
        yield Pause(_LOOK_S)
    raise WalletError(f"transaction {tx_hash} is not mined on {chain_id}")
