"""The execution of transactions: LiteSVM, with the time and history that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from florin_server.domain.chains.solana import spl
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

from florin_sandbox.devnet.errors import DevChainError
from florin_sandbox.devnet.solana import nonces
from florin_sandbox.devnet.solana.genesis import FAUCET_LAMPORTS, SOLANA_DEVNET
from florin_sandbox.devnet.solana.guards import resolve_guards, to_guard_error
from florin_sandbox.devnet.solana.history import LandedTransaction, SolanaHistory, StoredAccount
from florin_sandbox.devnet.solana.nonces import AnyMessage
from florin_sandbox.devnet.solana.parsed import format_ui_amount
from florin_sandbox.devnet.solana.slots import SlotClock

_FORMAT: Final = 1
# written by a transaction, but not anyone's account
_NOTHING = Account(0, b"", spl.SYSTEM)


@dataclass(frozen=True, slots=True)
class SolanaOutcome:
    """The outcome of executing a transaction; `error` is Solana's JSON form, None on success."""

    error: Any
    logs: Sequence[str]
    units: int
    fee: int
    accounts: dict[Pubkey, Account]


class SolanaMachine:
    """Accounts and the rules that change them. Used by one thread."""

    def __init__(self, history: SolanaHistory, slots: SlotClock) -> None:
        self._history = history
        self._slots = slots
        # signatures, blockhashes and repetitions are checked here, as in a node
        self._svm = (
            LiteSVM().with_sigverify(False).with_blockhash_check(False).with_transaction_history(0)
        )
        # the replacement needs a program at its address: this program passes or fails by its data
        # alone
        memo = self._svm.get_account(spl.MEMO)
        if memo is None:
            raise DevChainError("the machine has no memo program")
        self._svm.add_program(spl.LIGHTHOUSE, bytes(memo.data))
        if history.find_meta("format") is None:
            self._create_genesis()
        elif history.find_meta("format") != _FORMAT:
            raise DevChainError("another release created the stored chain: delete its file")
        for stored_account in history.list_accounts():
            owner = Pubkey.from_bytes(stored_account.owner)
            self._svm.set_account(
                Pubkey.from_bytes(stored_account.address),
                Account(
                    stored_account.lamports, stored_account.data, owner, stored_account.executable
                ),
            )

    def _create_genesis(self) -> None:
        rent = self._svm.minimum_balance_for_rent_exemption(spl.MINT_BYTES)
        faucet = Keypair.from_seed(SOLANA_DEVNET.faucet_seed).pubkey()
        mints = [
            StoredAccount(
                address=bytes(spl.parse_pubkey(token.address)),
                lamports=rent,
                owner=bytes(spl.parse_pubkey(token.program)),
                executable=False,
                # the faucet can mint; no account can freeze
                data=_pack_option(faucet)
                + bytes(8)
                + bytes([token.decimals, 1])
                + _pack_option(None),
            )
            for token in SOLANA_DEVNET.tokens
        ]
        coin = StoredAccount(bytes(faucet), FAUCET_LAMPORTS, bytes(spl.SYSTEM), False, b"")
        self._history.put_accounts([coin, *mints])
        self._history.set_meta("format", _FORMAT)

    def find_account(self, address: Pubkey) -> Account | None:
        """Return an account after the newest transaction; None if it does not exist."""
        account = self._svm.get_account(address)
        return account if account is not None and account.lamports else None

    def list_owned_accounts(self, program: Pubkey) -> list[tuple[Pubkey, Account]]:
        """Return every account of a program."""
        return self._svm.get_program_accounts(program)

    def get_rent(self, size: int) -> int:
        """Return the lamports that an account of a size must hold."""
        return self._svm.minimum_balance_for_rent_exemption(size)

    def is_current(self, message: AnyMessage) -> bool:
        """Return True if a transaction can land by its blockhash, or by the nonce in its place."""
        if self._slots.is_valid(message.recent_blockhash):
            return True
        used = nonces.find_nonce(message)
        if used is None:
            return False
        return nonces.has_value(self.find_account(used[0]), message.recent_blockhash, used[1])

    def simulate_transaction(self, transaction: VersionedTransaction) -> SolanaOutcome:
        """Return the outcome if the transaction landed now; nothing changes."""
        self._set_clock()
        transaction, failure = resolve_guards(transaction, self._find_state_after)
        done = self._svm.simulate_transaction(transaction)
        if isinstance(done, FailedTransactionMetadata):
            meta = done.meta()
            error = to_guard_error(format_error(done.err()), failure)
            return SolanaOutcome(error, meta.logs(), meta.compute_units_consumed(), meta.fee(), {})
        meta = done.meta()
        after = dict(done.post_accounts())
        return SolanaOutcome(None, meta.logs(), meta.compute_units_consumed(), meta.fee(), after)

    def execute_transaction(self, transaction: VersionedTransaction) -> LandedTransaction | None:
        """Land a transaction; return None if it cannot even pay its fee."""
        self._set_clock()
        message = transaction.message
        keys = message.account_keys
        before = [self.find_account(key) for key in keys]
        runs, failure = resolve_guards(transaction, self._find_state_after)
        done = self._svm.send_transaction(runs)
        error: Any = None
        if isinstance(done, FailedTransactionMetadata):
            error, meta = to_guard_error(format_error(done.err()), failure), done.meta()
            if self.find_account(keys[0]) == before[0]:
                return None
            self._use_nonce(message)
        else:
            meta = done
        after = [self.find_account(key) for key in keys]
        slot = self._slots.slot
        report: dict[str, Any] = {
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "fee": meta.fee(),
            "preBalances": [account.lamports if account else 0 for account in before],
            "postBalances": [account.lamports if account else 0 for account in after],
            "preTokenBalances": self._list_token_balances(keys, before),
            "postTokenBalances": self._list_token_balances(keys, after),
            "logMessages": meta.logs(),
            "computeUnitsConsumed": meta.compute_units_consumed(),
            "innerInstructions": [],
            "loadedAddresses": {"readonly": [], "writable": []},
            "rewards": [],
        }
        landed = LandedTransaction(
            signature=bytes(transaction.signatures[0]),
            slot=slot,
            time=self._slots.now,
            raw=bytes(transaction),
            error=None if error is None else orjson.dumps(error).decode(),
            memo=find_memo(message),
            meta=orjson.dumps(report),
        )
        self._history.put_accounts(
            [
                _to_stored_account(key, account)
                for key, old, account in zip(keys, before, after, strict=True)
                if account != old
            ]
        )
        self._history.append_transaction(landed, map(bytes, keys))
        self._slots.record_landing()
        return landed

    def _find_state_after(self, transaction: VersionedTransaction) -> dict[Pubkey, Account] | None:
        """Return the accounts that a transaction mentions, in their state after it."""
        done = self._svm.simulate_transaction(transaction)
        if isinstance(done, FailedTransactionMetadata):
            return None
        changed = dict(done.post_accounts())
        accounts = {key: self.find_account(key) for key in transaction.message.account_keys}
        return {
            key: account for key, account in {**accounts, **changed}.items() if account is not None
        }

    def _use_nonce(self, message: AnyMessage) -> None:
        """Advance the nonce of a failed transaction, which the machine does not."""
        used = nonces.find_nonce(message)
        account = self.find_account(used[0]) if used else None
        if used and account and nonces.has_value(account, message.recent_blockhash, used[1]):
            self._svm.set_account(used[0], nonces.advance_nonce(account))

    def _set_clock(self) -> None:
        slot = self._slots.slot
        if self._svm.get_clock().slot != slot:
            self._svm.set_clock(SysvarClock(slot, self._slots.now, 0, 0, self._slots.now))

    def _list_token_balances(
        self, keys: Sequence[Pubkey], accounts: Iterable[Account | None]
    ) -> list[dict[str, Any]]:
        report = []
        for index, (_key, account) in enumerate(zip(keys, accounts, strict=True)):
            if account is None or account.owner not in spl.PROGRAMS:
                continue
            held = spl.parse_token_account(bytes(account.data))
            if held is None:
                continue
            report.append(
                {
                    "accountIndex": index,
                    "mint": str(held.mint),
                    "owner": str(held.owner),
                    "programId": str(account.owner),
                    "uiTokenAmount": self.format_ui_amount(held),
                }
            )
        return report

    def format_ui_amount(self, token_account: spl.TokenAccount) -> dict[str, Any]:
        """Return an amount in the form that wallets show."""
        account = self.find_account(token_account.mint)
        mint = spl.parse_mint(bytes(account.data)) if account else None
        return format_ui_amount(token_account.amount, mint.decimals if mint else 0)


def format_error(error: Any) -> Any:
    """Return a transaction's error in the format of nodes."""
    match error:
        case TransactionErrorInstructionError():
            return {"InstructionError": [error.index, _format_instruction_error(error.err)]}
        case TransactionErrorInsufficientFundsForRent():
            return {"InsufficientFundsForRent": {"account_index": error.account_index}}
        case TransactionErrorDuplicateInstruction():
            return {"DuplicateInstruction": error.index}
        case TransactionErrorFieldless():
            return str(error).rpartition(".")[2]
        case _:
            return str(error)


def _format_instruction_error(error: Any) -> Any:
    match error:
        case InstructionErrorCustom():
            return {"Custom": error.code}
        case InstructionErrorBorshIO():
            return "BorshIoError"
        case _:
            return str(error).rpartition(".")[2]


def find_memo(message: AnyMessage) -> str | None:
    """Return the memos of a transaction in the form that lists of signatures show."""
    keys = message.account_keys
    notes = [
        bytes(compiled_instruction.data)
        for compiled_instruction in message.instructions
        if keys[compiled_instruction.program_id_index] == spl.MEMO
    ]
    if not notes:
        return None
    return "; ".join(f"[{len(note)}] {note.decode('utf-8', 'replace')}" for note in notes)


def _to_stored_account(key: Pubkey, account: Account | None) -> StoredAccount:
    this_account = account or _NOTHING
    return StoredAccount(
        bytes(key),
        this_account.lamports,
        bytes(this_account.owner),
        this_account.executable,
        bytes(this_account.data),
    )


def _pack_option(key: Pubkey | None) -> bytes:
    """Encode an optional key in the format of token programs."""
    return bytes(36) if key is None else b"\x01\0\0\0" + bytes(key)
