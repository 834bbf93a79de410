"""The intake of transactions: checked, simulated, and executed or queued."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from florin_server.domain.chains.solana import spl
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.faucet_limits import FaucetGift, GiftBudgets, GiftKind
from florin_sandbox.devnet.solana import params
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.history import SolanaHistory
from florin_sandbox.devnet.solana.machine import SolanaMachine
from florin_sandbox.devnet.solana.slots import SlotClock

AIRDROP_MAX: Final = 10_000 * spl.LAMPORTS_PER_SOL
COIN: Final = GiftKind("lamports", spl.LAMPORTS_PER_SOL, AIRDROP_MAX)
WAITING_MAX: Final = 10_000


class TransactionIntake:
    """The intake of transactions; while `paused` they wait, and may expire."""

    OPTIONS: Final = (
        "encoding",
        "skipPreflight",
        "preflightCommitment",
        "maxRetries",
        "minContextSlot",
    )

    def __init__(
        self, history: SolanaHistory, slots: SlotClock, machine: SolanaMachine, gifts: GiftBudgets
    ) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._gifts = gifts
        self._waiting: OrderedDict[bytes, VersionedTransaction] = OrderedDict()
        self.faucet = Keypair.from_seed(SOLANA_DEVNET.faucet_seed)
        self.is_paused = False

    def send_transaction(self, encoded: Any, config: Any = None) -> str:
        """Accept a transaction and return its first signature; it need not land."""
        options = params.parse_fields(config, self.OPTIONS)
        self._slots.get_slot_at(params.parse_commitment(options, "preflightCommitment"))
        transaction = self.parse_transaction(encoded, options)
        if not all(transaction.verify_with_results()):
            raise RpcFault("Transaction signature verification failure", -32003)
        signature = transaction.signatures[0]
        if not params.parse_flag(options.get("skipPreflight", False)):
            self._preflight(transaction)
        if self.is_paused:
            if len(self._waiting) >= WAITING_MAX:
                raise RpcFault("Node is behind by 1000 slots", -32005)
            self._waiting[bytes(signature)] = transaction
        else:
            self._land(transaction)
        return str(signature)

    def parse_transaction(
        self, transaction: Any, options: Mapping[str, Any]
    ) -> VersionedTransaction:
        """Parse a transaction in the encoding that the options of its call name."""
        encoding = params.parse_encoding(options, ("base58", "base64"), "base58")
        return params.parse_transaction(transaction, encoding)

    def resume(self) -> None:
        """End a pause; queued transactions land now, unless their blockhash has expired."""
        self.is_paused = False
        while self._waiting:
            self._land(self._waiting.popitem(last=False)[1])

    def take_gifts(self, gifts: Sequence[FaucetGift]) -> None:
        """Take gifts out of the faucet's budgets; raise RpcFault if they exceed the limits."""
        self._gifts.take_gifts(gifts)

    def execute_instructions(self, instructions: list[Any]) -> str:
        """Execute instructions of the faucet at once; raise RpcFault if they fail."""
        # two equal gifts within a slot are two transactions
        instructions = [*instructions, spl.create_memo(f"faucet {secrets.token_hex(8)}")]
        blockhash = self._slots.get_blockhash(self._slots.slot)
        message = MessageV0.try_compile(self.faucet.pubkey(), instructions, [], blockhash)
        landed = self._machine.execute_transaction(VersionedTransaction(message, [self.faucet]))
        if landed is None or landed.error is not None:
            raise RpcFault(f"the faucet failed: {landed.error if landed else 'no fee'}")
        return params.encode_base58(landed.signature)

    def airdrop_coin(self, address: Any, lamports: Any, config: Any = None) -> str:
        """Give coin to an account."""
        fields = params.parse_fields(config, ("commitment", "recentBlockhash"))
        self._slots.get_slot_at(params.parse_commitment(fields))
        amount, to = params.parse_number(lamports, 1, AIRDROP_MAX), params.parse_pubkey(address)
        account = self._machine.find_account(to)
        self.take_gifts([FaucetGift(COIN, amount + (account.lamports if account else 0), amount)])
        return self.execute_instructions([self.build_coin_instruction(to, amount)])

    def build_coin_instruction(self, to: Pubkey, lamports: int) -> Any:
        """Return the faucet's instruction that gives coin."""
        transfer_params = TransferParams(
            from_pubkey=self.faucet.pubkey(), to_pubkey=to, lamports=lamports
        )
        return transfer(transfer_params)

    def _preflight(self, transaction: VersionedTransaction) -> None:
        if self._is_known(transaction):
            raise _build_fault("This transaction has already been processed", "AlreadyProcessed")
        if not self._machine.is_current(transaction.message):
            raise _build_fault("Blockhash not found", "BlockhashNotFound")
        outcome = self._machine.simulate_transaction(transaction)
        if outcome.error is not None:
            raise _build_fault(
                f"Error processing transaction: {outcome.error}",
                outcome.error,
                list(outcome.logs),
                outcome.units,
            )

    def _land(self, transaction: VersionedTransaction) -> None:
        lapsed = not self._machine.is_current(transaction.message)
        if not lapsed and not self._is_known(transaction):
            self._machine.execute_transaction(transaction)

    def _is_known(self, transaction: VersionedTransaction) -> bool:
        return self._history.find_transaction(bytes(transaction.signatures[0])) is not None


def _build_fault(
    message: str, error: Any, logs: list[str] | None = None, units: int = 0
) -> RpcFault:
    data = {"err": error, "logs": logs or [], "accounts": None, "unitsConsumed": units}
    return RpcFault(f"Transaction simulation failed: {message}", -32002, data)
