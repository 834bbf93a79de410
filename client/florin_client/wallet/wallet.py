"""The wallet: its keys and accounts, and the execution of options."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Self

from solders.keypair import Keypair

from florin_client.wallet.actions import AnyAction, WalletError
from florin_client.wallet.chains import ChainProcedure, JsonRpc, Pause, Question
from florin_client.wallet.evm import EvmKey, FeeBudget, default_max_fee
from florin_client.wallet.evm_steps import (
    Permit2Transfer,
    SignedApproval,
    TransferAuthorization,
)
from florin_client.wallet.plan import PaymentPlan, plan_payment
from florin_client.wallet.solana import SolanaKey
from florin_client.wallet.solana_steps import SolanaPayment
from florin_client.wallet.terms import AnyOption
from florin_client.wallet.x402_steps import (
    AddressAuthorization,
    AddressPermit,
    MerchantTransfer,
)

# a transaction that is not mined by then had too low a fee
_RECEIPT_POLLS_MAX, _RECEIPT_POLL_S = 120, 1.0


class Wallet:
    """Keys for EVM chains, for Solana, or for both, and nodes that transactions are sent to.

    `evm_key` is 32 bytes or their hex, `solana_key` a key pair of 64 bytes or its base58.
    `rpc_urls` are JSON-RPC URLs by CAIP-2 chain, needed only for options that make the wallet send
    transactions.
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
        self._json_rpc = JsonRpc(dict(rpc_urls or {}))

    @classmethod
    def create(cls, *, rpc_urls: Mapping[str, str] | None = None) -> Self:
        """Return a wallet with new keys of both kinds."""
        evm_key, solana_key = secrets.token_bytes(32), bytes(Keypair())
        return cls(evm_key=evm_key, solana_key=solana_key, rpc_urls=rpc_urls)

    def __repr__(self) -> str:
        """Return the accounts without the secrets."""
        return (
            f"Wallet({', '.join(repr(signer) for signer in (self._evm, self._solana) if signer)})"
        )

    @property
    def evm(self) -> EvmKey:
        """Return the key for EVM chains; raise WalletError without one."""
        if self._evm is None:
            raise WalletError("the wallet has no key for EVM chains")
        return self._evm

    @property
    def solana(self) -> SolanaKey:
        """Return the key for Solana; raise WalletError without one."""
        if self._solana is None:
            raise WalletError("the wallet has no key for Solana")
        return self._solana

    def account(self, chain_id: str) -> str:
        """Return the account (CAIP-10) on a chain (CAIP-2)."""
        solana = chain_id.startswith("solana:")
        return f"{chain_id}:{self.solana.address if solana else self.evm.address}"

    def accounts(self, *chain_ids: str) -> list[str]:
        """Return the accounts on several chains, for a request of options."""
        return [self.account(chain_id) for chain_id in chain_ids]

    def execute(
        self, actions: Iterable[AnyAction], *, option: AnyOption, max_fee: int | None = None
    ) -> list[str]:
        """Execute the actions of an option in order; return one output per action, for the confirm.

        Raise WalletError if the wallet cannot execute an action, or unless the actions take exactly
        what the option states (`plan_payment`). A transaction is sent once those before it are
        mined. Together they cost `max_fee` in minor units of the native coin at most
        (`default_max_fee`).
        """
        return self._json_rpc.run(self.start_execution(actions, option=option, max_fee=max_fee))

    def execute_plan(self, plan: PaymentPlan, *, max_fee: int | None = None) -> list[str]:
        """Execute a plan that was shown to the payer; return its outputs."""
        return self._json_rpc.run(self.start_plan_execution(plan, max_fee=max_fee))

    def start_execution(
        self,
        actions: Iterable[AnyAction],
        *,
        option: AnyOption,
        max_fee: int | None = None,
        now: float | None = None,
    ) -> ChainProcedure[list[str]]:
        """Execute like `execute`, with chain calls as a generator; `now` is in Unix seconds."""
        plan = plan_payment(option, actions, now=now)
        return (yield from self.start_plan_execution(plan, max_fee=max_fee))

    def start_plan_execution(
        self, plan: PaymentPlan, *, max_fee: int | None = None
    ) -> ChainProcedure[list[str]]:
        """Execute a plan like `execute_plan`, with chain calls as a generator."""
        terms = plan.terms
        own = self.evm.address.lower() if terms.is_evm else self.solana.address
        if terms.account != own:
            raise WalletError(f"{terms.account} is not the wallet's account {own}")
        coin = terms.amount if terms.token is None else None
        budget = FeeBudget(default_max_fee(terms.chain_id, coin) if max_fee is None else max_fee)
        outputs, sent = [], ""
        for step in plan.steps:
            if isinstance(step, SolanaPayment):
                outputs.append(self.solana.sign(step))
            elif isinstance(step, MerchantTransfer):
                outputs.append(self.solana.sign(step.payment))
            elif isinstance(
                step,
                TransferAuthorization
                | AddressAuthorization
                | AddressPermit
                | Permit2Transfer
                | SignedApproval,
            ):
                outputs.append(self.evm.sign(step))
            else:
                if sent:
                    yield from wait_mined(terms.chain_id, sent)
                sent = yield from self.evm.send(terms.chain_id, step, budget)
                outputs.append(sent)
        return outputs


def wait_mined(chain_id: str, tx_hash: str) -> ChainProcedure[None]:
    """Wait until a transaction is mined; raise WalletError if it fails, or is not mined in time."""
    for _ in range(_RECEIPT_POLLS_MAX):
        receipt: Any = yield Question(chain_id, "eth_getTransactionReceipt", (tx_hash,))
        if receipt is not None:
            if not isinstance(receipt, dict) or receipt.get("status") != "0x1":
                raise WalletError(f"transaction {tx_hash} failed on {chain_id}")
            return
        yield Pause(_RECEIPT_POLL_S)
    raise WalletError(f"transaction {tx_hash} is not mined on {chain_id}")
