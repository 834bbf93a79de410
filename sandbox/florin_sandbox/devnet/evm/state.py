"""Accounts and storage in one flat dictionary with an undo log, in place of Merkle tries.

A cell is (address, field); fields below zero are the account's own, the others storage slots. A
cell with zero or an empty value is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eth.abc import (
    AccountDatabaseAPI,
    ComputationAPI,
    MessageAPI,
    SignedTransactionAPI,
)
from eth.constants import BLANK_ROOT_HASH, EMPTY_SHA3
from eth.typing import JournalDBCheckpoint
from eth.vm.forks.prague.state import PragueState, PragueTransactionExecutor
from eth.vm.state import BaseState
from eth_hash.auto import keccak
from eth_typing import Address, Hash32

from florin_sandbox.devnet.evm.interpreter import DevComputation
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.token_fees import TokenFees

Cell = tuple[bytes, int]
Value = int | bytes

BALANCE: Final = -1
NONCE: Final = -2
CODE: Final = -3

_REVERT: Final = bytes.fromhex("60006000fd")


class FlatState(AccountDatabaseAPI):
    """The account database on which py-evm executes.

    `record` is the length of the log, and `discard` replays it backwards. The log also contains
    what belongs to one transaction only: warm marks and transient storage.
    """

    state_root = BLANK_ROOT_HASH

    def __init__(self, db: Any = None, state_root: Any = None) -> None:  # noqa: ARG002  (py-evm's)
        self.cells: dict[Cell, Value] = {}
        self._warm: dict[Any, bool] = {}
        self._transient: dict[Cell, bytes] = {}
        self._originals: dict[Cell, int] = {}
        self._log: list[tuple[dict[Any, Any], Any, Any]] = []
        self._undo: dict[Cell, Value | None] = {}

    # ---- used by the chain

    def seal_transaction(self) -> None:
        """Keep the changes since the last seal; only whole blocks can be undone now."""
        for table, cell, old in self._log:
            if table is self.cells:
                self._undo.setdefault(cell, old)
        self.lock_changes()

    def take_undo(self) -> dict[Cell, Value | None]:
        """Return the former values of all cells that changed since the last call."""
        undo, self._undo = self._undo, {}
        return undo

    def overlay_cells(self, former: Mapping[Cell, Value | None]) -> None:
        """Restore former values; they can be discarded."""
        for cell, old in former.items():
            self._put(self.cells, cell, old)

    def reset_cells(self, former: Mapping[Cell, Value | None]) -> None:
        """Restore former values permanently."""
        self.overlay_cells(former)
        self.lock_changes()

    def discard_unsealed(self) -> None:
        """Undo everything since the last seal."""
        self.discard(JournalDBCheckpoint(0))
        self.lock_changes()

    # ---- the journal

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._log.append((table, key, table.get(key)))
        if value:
            table[key] = value
        else:
            table.pop(key, None)

    def record(self) -> JournalDBCheckpoint:
        """Return a checkpoint."""
        return JournalDBCheckpoint(len(self._log))

    def discard(self, checkpoint: JournalDBCheckpoint) -> None:
        """Return to a checkpoint."""
        log = self._log
        while len(log) > checkpoint:
            table, key, old = log.pop()
            if old is None:
                table.pop(key, None)
            else:
                table[key] = old

    def commit(self, checkpoint: JournalDBCheckpoint) -> None:
        """Do nothing: an enclosing checkpoint can still be restored."""

    def lock_changes(self) -> None:
        """End a transaction: clear its log, warm marks and original values."""
        self._log.clear()
        self._warm.clear()
        self._transient.clear()
        self._originals.clear()

    # ---- storage

    def get_storage(self, address: Address, slot: int, from_journal: bool = True) -> int:
        """Return a slot's value, or its value before the transaction if not `from_journal`."""
        cell = (address, slot)
        if not from_journal and cell in self._originals:
            return self._originals[cell]
        return self.cells.get(cell, 0)  # type: ignore[return-value]

    def set_storage(self, address: Address, slot: int, value: int) -> None:
        """Set a slot."""
        cell = (address, slot)
        self._originals.setdefault(cell, self.get_storage(address, slot))
        self._put(self.cells, cell, value)

    def delete_storage(self, address: Address) -> None:
        """Clear every slot of an account."""
        if not self.account_has_code_or_nonce(address):
            return  # it never ran code, so it has no storage
        for cell in [cell for cell in self.cells if cell[0] == address and cell[1] >= 0]:
            self._put(self.cells, cell, None)

    def is_storage_warm(self, address: Address, slot: int) -> bool:
        """Return whether the transaction has used the slot."""
        return (address, slot) in self._warm

    def mark_storage_warm(self, address: Address, slot: int) -> None:
        """Mark the slot as used."""
        if (address, slot) not in self._warm:
            self._put(self._warm, (address, slot), True)

    def get_transient(self, address: Address, slot: int) -> bytes:
        """Return a slot that lasts as long as the transaction."""
        return self._transient.get((address, slot), b"")

    def set_transient(self, address: Address, slot: int, value: bytes) -> None:
        """Set a slot that lasts as long as the transaction."""
        self._put(self._transient, (address, slot), value)

    # ---- accounts

    def is_address_warm(self, address: Address) -> bool:
        """Return whether the transaction has used the account."""
        return address in self._warm

    def mark_address_warm(self, address: Address) -> None:
        """Mark the account as used."""
        if address not in self._warm:
            self._put(self._warm, address, True)

    def get_balance(self, address: Address) -> int:
        """Return the balance in wei."""
        return self.cells.get((address, BALANCE), 0)  # type: ignore[return-value]

    def set_balance(self, address: Address, balance: int) -> None:
        """Set the balance in wei."""
        self._put(self.cells, (address, BALANCE), balance)

    def get_nonce(self, address: Address) -> int:
        """Return the number of transactions sent, or contracts created."""
        return self.cells.get((address, NONCE), 0)  # type: ignore[return-value]

    def set_nonce(self, address: Address, nonce: int) -> None:
        """Set the nonce."""
        self._put(self.cells, (address, NONCE), nonce)

    def increment_nonce(self, address: Address) -> None:
        """Add one to the nonce."""
        self.set_nonce(address, self.get_nonce(address) + 1)

    def get_code(self, address: Address) -> bytes:
        """Return the account's code, empty for most."""
        return self.cells.get((address, CODE), b"")  # type: ignore[return-value]

    def set_code(self, address: Address, code: bytes) -> None:
        """Set the code."""
        self._put(self.cells, (address, CODE), bytes(code))

    def get_code_hash(self, address: Address) -> Hash32:
        """Return the Keccak hash of the code."""
        code = self.get_code(address)
        return Hash32(keccak(code)) if code else EMPTY_SHA3

    def delete_code(self, address: Address) -> None:
        """Remove the code."""
        self._put(self.cells, (address, CODE), None)

    def account_has_code_or_nonce(self, address: Address) -> bool:
        """Return whether no contract can be created here."""
        return (address, NONCE) in self.cells or (address, CODE) in self.cells

    def delete_account(self, address: Address) -> None:
        """Remove everything about an account."""
        self.delete_storage(address)
        for field in (BALANCE, NONCE, CODE):
            if (address, field) in self.cells:
                self._put(self.cells, (address, field), None)

    def account_exists(self, address: Address) -> bool:
        """Return whether an account exists: an empty account does not (EIP-161)."""
        return not self.account_is_empty(address)

    def touch_account(self, address: Address) -> None:
        """Do nothing: an empty account does not exist."""

    def account_is_empty(self, address: Address) -> bool:
        """Return whether the account has no code, no nonce and no balance."""
        return not self.account_has_code_or_nonce(address) and (address, BALANCE) not in self.cells

    # ---- the interface of tries

    def has_root(self, state_root: bytes) -> bool:  # noqa: ARG002  (py-evm's interface)
        """Return True: only one state exists."""
        return True

    def make_state_root(self) -> Hash32:
        """Return the blank root: blocks of this chain contain no state root."""
        return BLANK_ROOT_HASH

    def persist(self) -> Any:
        """Do nothing: the chain writes sealed blocks."""
        return None


class _ScheduledExecutor(PragueTransactionExecutor):
    """An executor that charges the schedule's price for calldata."""

    def calc_data_floor_gas(  # type: ignore[override]
        self, transaction: SignedTransactionAPI, gas_used: int, gas_refund: int
    ) -> int:
        """Return the gas that is missing up to the floor."""
        schedule: GasSchedule = self.vm_state.schedule  # type: ignore[attr-defined]
        return max(schedule.compute_floor_gas(transaction.data) - (gas_used - gas_refund), 0)


class _RevertingExecutor(_ScheduledExecutor):
    """An executor whose transactions run code that reverts, whatever they call."""

    def build_evm_message(self, transaction: SignedTransactionAPI) -> MessageAPI:
        message = super().build_evm_message(transaction)
        message.code = _REVERT
        return message


class DevState(PragueState):
    """Prague's rules on the flat state, with transient storage in the same log."""

    account_db_class = FlatState
    computation_class = DevComputation
    transaction_executor_class = _ScheduledExecutor
    _account_db: FlatState
    schedule = GasSchedule()  # a chain sets its own
    fees: TokenFees | None = None  # set by a chain without a coin

    @property
    def flat(self) -> FlatState:
        """Return the accounts and storage."""
        return self._account_db

    def has_code_or_nonce(self, address: Address) -> bool:
        """Return whether an account has sent a transaction or has code."""
        return self.flat.account_has_code_or_nonce(address)

    def apply_reverting(self, transaction: SignedTransactionAPI) -> ComputationAPI:
        """Apply a transaction that fails deliberately: it pays for its gas and does nothing."""
        return _RevertingExecutor(self)(transaction)

    def get_transient_storage(self, address: Address, slot: int) -> bytes:
        """Return a slot that lasts as long as the transaction."""
        return self.flat.get_transient(address, slot)

    def set_transient_storage(self, address: Address, slot: int, value: bytes) -> None:
        """Set a slot that lasts as long as the transaction."""
        self.flat.set_transient(address, slot, value)

    def clear_transient_storage(self) -> None:
        """Do nothing: sealing the transaction clears it."""

    def snapshot(self) -> tuple[Hash32, JournalDBCheckpoint]:
        """Return a checkpoint."""
        return BaseState.snapshot(self)

    def revert(self, snapshot: tuple[Hash32, JournalDBCheckpoint]) -> None:
        """Return to a checkpoint."""
        BaseState.revert(self, snapshot)

    def commit(self, snapshot: tuple[Hash32, JournalDBCheckpoint]) -> None:
        """Do nothing: an enclosing checkpoint can still be restored."""
