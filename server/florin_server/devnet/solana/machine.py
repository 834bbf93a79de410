"""Executing transactions: LiteSVM, and what it does not know about time and history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from solders.account import Account
from solders.clock import Clock as SysvarClock
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata
from solders.transaction_status import (
    InstructionErrorBorshIO,
    InstructionErrorCustom,
    TransactionErrorDuplicateInstruction,
    TransactionErrorFieldless,
    TransactionErrorInstructionError,
    TransactionErrorInsufficientFundsForRent,
)

from florin_server.chains.solana import spl
from florin_server.devnet.errors import DevChainError
from florin_server.devnet.solana import nonces
from florin_server.devnet.solana.genesis import FAUCET_LAMPORTS, SOLNET
from florin_server.devnet.solana.guards import error_of_guard, resolve_guards
from florin_server.devnet.solana.history import History, Landed, StoredAccount
from florin_server.devnet.solana.nonces import AnyMessage
from florin_server.devnet.solana.parsed import ui_amount
from florin_server.devnet.solana.slots import Slots

_FORMAT: Final = 1
# what a transaction writes that is no account of anybody
_NOTHING = Account(0, b"", spl.SYSTEM)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What executing a transaction led to; `error` is in Solana's JSON form, None if it worked."""

    error: Any
    logs: Sequence[str]
    units: int
    fee: int
    accounts: dict[Pubkey, Account]


class Machine:
    """Accounts and the rules that change them. Used by one thread."""

    def __init__(self, history: History, slots: Slots) -> None:
        self._history = history
        self._slots = slots
        # signatures, blockhashes and repetitions are looked at here, as a node does
        self._svm = (
            LiteSVM().with_sigverify(False).with_blockhash_check(False).with_transaction_history(0)
        )
        # a stand-in needs a program at its address: this one passes, or fails, by its data alone
        memo = self._svm.get_account(spl.MEMO)
        if memo is None:
            raise DevChainError("the machine has no memo program")
        self._svm.add_program(spl.LIGHTHOUSE, bytes(memo.data))
        if history.meta("format") is None:
            self._genesis()
        elif history.meta("format") != _FORMAT:
            raise DevChainError("the stored chain is of another release: delete its file")
        for one in history.accounts():
            owner = Pubkey.from_bytes(one.owner)
            self._svm.set_account(
                Pubkey.from_bytes(one.address),
                Account(one.lamports, one.data, owner, one.executable),
            )

    def _genesis(self) -> None:
        rent = self._svm.minimum_balance_for_rent_exemption(spl.MINT_BYTES)
        faucet = Keypair.from_seed(SOLNET.faucet_seed).pubkey()
        mints = [
            StoredAccount(
                address=bytes(spl.pubkey(token.address)),
                lamports=rent,
                owner=bytes(spl.pubkey(token.program)),
                executable=False,
                # the faucet may mint, nobody may freeze
                data=_option(faucet) + bytes(8) + bytes([token.decimals, 1]) + _option(None),
            )
            for token in SOLNET.tokens
        ]
        coin = StoredAccount(bytes(faucet), FAUCET_LAMPORTS, bytes(spl.SYSTEM), False, b"")
        self._history.put_accounts([coin, *mints])
        self._history.set_meta("format", _FORMAT)

    def account(self, address: Pubkey) -> Account | None:
        """An account as the newest transaction left it."""
        found = self._svm.get_account(address)
        return found if found is not None and found.lamports else None

    def owned(self, program: Pubkey) -> list[tuple[Pubkey, Account]]:
        """Every account of a program."""
        return self._svm.get_program_accounts(program)

    def rent(self, size: int) -> int:
        """Lamports that an account of a size must hold."""
        return self._svm.minimum_balance_for_rent_exemption(size)

    def is_current(self, message: AnyMessage) -> bool:
        """True if a transaction may land by its blockhash, or by the nonce in its place."""
        if self._slots.is_valid(message.recent_blockhash):
            return True
        used = nonces.nonce_used(message)
        if used is None:
            return False
        return nonces.holds(self.account(used[0]), message.recent_blockhash, used[1])

    def simulate(self, transaction: VersionedTransaction) -> Outcome:
        """What would happen if the transaction landed now; nothing changes."""
        self._set_clock()
        transaction, failure = resolve_guards(transaction, self._state_after)
        done = self._svm.simulate_transaction(transaction)
        if isinstance(done, FailedTransactionMetadata):
            meta = done.meta()
            error = error_of_guard(error_json(done.err()), failure)
            return Outcome(error, meta.logs(), meta.compute_units_consumed(), meta.fee(), {})
        meta = done.meta()
        after = dict(done.post_accounts())
        return Outcome(None, meta.logs(), meta.compute_units_consumed(), meta.fee(), after)

    def execute(self, transaction: VersionedTransaction) -> Landed | None:
        """Lets a transaction land; None if it could not even pay its fee."""
        self._set_clock()
        message = transaction.message
        keys = message.account_keys
        before = [self.account(key) for key in keys]
        runs, failure = resolve_guards(transaction, self._state_after)
        done = self._svm.send_transaction(runs)
        error: Any = None
        if isinstance(done, FailedTransactionMetadata):
            error, meta = error_of_guard(error_json(done.err()), failure), done.meta()
            if self.account(keys[0]) == before[0]:
                return None
            self._use_nonce(message)
        else:
            meta = done
        after = [self.account(key) for key in keys]
        slot = self._slots.slot
        told: dict[str, Any] = {
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "fee": meta.fee(),
            "preBalances": [one.lamports if one else 0 for one in before],
            "postBalances": [one.lamports if one else 0 for one in after],
            "preTokenBalances": self._token_balances(keys, before),
            "postTokenBalances": self._token_balances(keys, after),
            "logMessages": meta.logs(),
            "computeUnitsConsumed": meta.compute_units_consumed(),
            "innerInstructions": [],
            "loadedAddresses": {"readonly": [], "writable": []},
            "rewards": [],
        }
        landed = Landed(
            signature=bytes(transaction.signatures[0]),
            slot=slot,
            time=self._slots.now,
            raw=bytes(transaction),
            error=None if error is None else orjson.dumps(error).decode(),
            memo=memo_of(message),
            meta=orjson.dumps(told),
        )
        self._history.put_accounts(
            [
                _stored(key, one)
                for key, old, one in zip(keys, before, after, strict=True)
                if one != old
            ]
        )
        self._history.append(landed, map(bytes, keys))
        self._slots.landed()
        return landed

    def _state_after(self, transaction: VersionedTransaction) -> dict[Pubkey, Account] | None:
        """Return the accounts that a transaction names, as it would leave them."""
        done = self._svm.simulate_transaction(transaction)
        if isinstance(done, FailedTransactionMetadata):
            return None
        changed = dict(done.post_accounts())
        kept = {key: self.account(key) for key in transaction.message.account_keys}
        return {key: one for key, one in {**kept, **changed}.items() if one is not None}

    def _use_nonce(self, message: AnyMessage) -> None:
        """What the machine leaves out when a transaction fails."""
        used = nonces.nonce_used(message)
        account = self.account(used[0]) if used else None
        if used and account and nonces.holds(account, message.recent_blockhash, used[1]):
            self._svm.set_account(used[0], nonces.advanced(account))

    def _set_clock(self) -> None:
        slot = self._slots.slot
        if self._svm.get_clock().slot != slot:
            self._svm.set_clock(SysvarClock(slot, self._slots.now, 0, 0, self._slots.now))

    def _token_balances(
        self, keys: Sequence[Pubkey], accounts: Iterable[Account | None]
    ) -> list[dict[str, Any]]:
        told = []
        for index, (_key, account) in enumerate(zip(keys, accounts, strict=True)):
            if account is None or account.owner not in spl.PROGRAMS:
                continue
            held = spl.token_account(bytes(account.data))
            if held is None:
                continue
            told.append(
                {
                    "accountIndex": index,
                    "mint": str(held.mint),
                    "owner": str(held.owner),
                    "programId": str(account.owner),
                    "uiTokenAmount": self.ui_amount(held),
                }
            )
        return told

    def ui_amount(self, held: spl.TokenAccount) -> dict[str, Any]:
        """An amount in the form that wallets show."""
        account = self.account(held.mint)
        mint = spl.mint_of(bytes(account.data)) if account else None
        return ui_amount(held.amount, mint.decimals if mint else 0)


def error_json(error: Any) -> Any:
    """A transaction's error as nodes write it."""
    match error:
        case TransactionErrorInstructionError():
            return {"InstructionError": [error.index, _instruction_error(error.err)]}
        case TransactionErrorInsufficientFundsForRent():
            return {"InsufficientFundsForRent": {"account_index": error.account_index}}
        case TransactionErrorDuplicateInstruction():
            return {"DuplicateInstruction": error.index}
        case TransactionErrorFieldless():
            return str(error).rpartition(".")[2]
        case _:
            return str(error)


def _instruction_error(error: Any) -> Any:
    match error:
        case InstructionErrorCustom():
            return {"Custom": error.code}
        case InstructionErrorBorshIO():
            return "BorshIoError"
        case _:
            return str(error).rpartition(".")[2]


def memo_of(message: AnyMessage) -> str | None:
    """The notes of a transaction, as lists of signatures show them."""
    keys = message.account_keys
    notes = [
        bytes(one.data) for one in message.instructions if keys[one.program_id_index] == spl.MEMO
    ]
    if not notes:
        return None
    return "; ".join(f"[{len(note)}] {note.decode('utf-8', 'replace')}" for note in notes)


def _stored(key: Pubkey, account: Account | None) -> StoredAccount:
    one = account or _NOTHING
    return StoredAccount(
        bytes(key), one.lamports, bytes(one.owner), one.executable, bytes(one.data)
    )


def _option(key: Pubkey | None) -> bytes:
    """How token programs write a key that may be missing."""
    return bytes(36) if key is None else b"\x01\0\0\0" + bytes(key)
