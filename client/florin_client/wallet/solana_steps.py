"""The single step of an option on Solana: a transaction that pays the price, parsed from bytes."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from solders.instruction import AccountMeta, Instruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_client.wallet.actions import Step, WalletError
from florin_client.wallet.terms import OptionTerms

_SYSTEM_PROGRAM: Final = "11111111111111111111111111111111"
_TOKEN_PROGRAM: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"  # noqa: S105  (a program)
_TOKEN_2022_PROGRAM: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"  # noqa: S105
_ASSOCIATED_TOKEN_PROGRAM: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"  # noqa: S105
MEMO_PROGRAM: Final = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
_COMPUTE_BUDGET_PROGRAM: Final = "ComputeBudget111111111111111111111111111111"
TOKEN_PROGRAMS: Final = (_TOKEN_PROGRAM, _TOKEN_2022_PROGRAM)

_TRANSFER, _TRANSFER_CHECKED = 2, 12
_COIN_TRANSFER_LAYOUT = struct.Struct("<IQ")
_TOKEN_TRANSFER_LAYOUT = struct.Struct("<BQB")
_ADVANCE_NONCE: Final = struct.pack("<I", 4)
# opens a token account, in either form
_CREATE_ACCOUNT_DATA: Final = frozenset({b"", b"\x00", b"\x01"})
_UNIT_LIMIT_LAYOUT, _UNIT_PRICE_LAYOUT = struct.Struct("<BI"), struct.Struct("<BQ")

# to the receiver, and to the fee receiver
_TRANSFERS_MAX: Final = 2
_INSTRUCTIONS_MAX: Final = 16
# limit of legacy and version 0 transactions; only version 1 can have more (SIMD-0385)
_BYTES_MAX: Final = 1_232
# the relayer pays it, not the buyer: a higher amount is no payment of a shop
PRIORITY_LAMPORTS_MAX: Final = 10_000_000
_UNITS_MAX: Final = 1_400_000


@dataclass(frozen=True, slots=True)
class SolanaPayment:
    """A transaction to sign: `amount` goes from the payer to `receivers`, `fee_payer` pays for it.

    Receivers are accounts with the amount of each: token accounts, or wallets for lamports.
    `decimals` comes from the token's instructions, and the chain checks it; None for lamports.
    `uses_durable_nonce` means that a durable nonce replaces the blockhash: the signature then
    lasts as long as the payment, and otherwise 150 blocks.
    """

    method = "solana_signTransaction"

    transaction: VersionedTransaction
    token: str | None
    payer: str
    amount: int
    decimals: int | None
    receivers: tuple[tuple[str, int], ...]
    fee_payer: str
    uses_durable_nonce: bool = False


def parse_step(step: Step, terms: OptionTerms) -> SolanaPayment:
    """Parse the step of an option; raise WalletError unless it pays the price and nothing else."""
    if step.method != "solana_signTransaction":
        raise WalletError(f"this wallet does not execute {step.method[:80]}")
    transaction, message = _parse_transaction(step)
    keys = [str(pubkey) for pubkey in message.account_keys]
    signers = keys[: message.header.num_required_signatures]
    if len(signers) != 2 or signers[1] != terms.account or signers[0] == terms.account:
        _reject_step("it must have two signers: a fee payer, and then the payer")
    reader = _InstructionReader(message, keys, terms)
    reader.read_instructions()
    taken = sum(amount for _, amount in reader.transfers)
    if taken != terms.amount:
        _reject_step(f"it takes {taken}; the option costs {terms.amount}")
    return SolanaPayment(
        transaction=transaction,
        token=terms.token,
        payer=terms.account,
        amount=taken,
        decimals=reader.decimals,
        receivers=tuple(reader.transfers),
        fee_payer=keys[0],
        uses_durable_nonce=reader.uses_durable_nonce,
    )


def _parse_transaction(step: Step) -> tuple[VersionedTransaction, Message | MessageV0]:
    if len(step.params) != 1 or not isinstance(step.params[0], Mapping):
        _reject_step("it must have exactly one transaction")
    text = step.params[0].get("transaction")
    if step.params[0].keys() != {"transaction"} or not isinstance(text, str):
        _reject_step("it must have exactly one transaction")
    try:
        raw = base64.b64decode(text, validate=True)
        transaction = VersionedTransaction.from_bytes(raw)
    except (binascii.Error, ValueError):
        _reject_step("its content is not a transaction")
    message = transaction.message
    if not isinstance(message, Message | MessageV0):
        _reject_step("this wallet does not support the transaction's version")
    if bytes(transaction) != raw or len(raw) > _BYTES_MAX:
        _reject_step("the transaction has no canonical form")
    if isinstance(message, MessageV0) and message.address_table_lookups:
        _reject_step("it uses address lookup tables")
    if len(message.instructions) > _INSTRUCTIONS_MAX:
        _reject_step("it has more instructions than a payment")
    return transaction, message


class _InstructionReader:
    """Reads instructions in order; an unknown instruction makes it refuse the transaction."""

    def __init__(self, message: Message | MessageV0, keys: list[str], terms: OptionTerms) -> None:
        self._message = message
        self._keys = keys
        self._terms = terms
        self._compute_units: int | None = None
        self._compute_price: int | None = None
        self._account_creations = 0
        self.transfers: list[tuple[str, int]] = []
        self.decimals: int | None = None
        self.uses_durable_nonce = False

    def read_instructions(self) -> None:
        """Read all instructions; raise WalletError for one that is not part of a payment."""
        for number, compiled_instruction in enumerate(self._message.instructions):
            indexes = bytes(compiled_instruction.accounts)
            if max((compiled_instruction.program_id_index, *indexes)) >= len(self._keys):
                _reject_step("an instruction names a missing account")
            program = self._keys[compiled_instruction.program_id_index]
            named = [self._keys[index] for index in indexes]
            try:
                is_accepted = self._read_instruction(
                    number, program, bytes(compiled_instruction.data), named
                )
            except (struct.error, IndexError, ValueError):
                is_accepted = False
            if not is_accepted:
                _reject_step(f"a call of {program} is not part of a payment")
        if len(self.transfers) > _TRANSFERS_MAX or self._account_creations > _TRANSFERS_MAX:
            _reject_step("it has more transfers than a payment")
        units = _UNITS_MAX if self._compute_units is None else self._compute_units
        priority = (self._compute_price or 0) * units // 1_000_000
        if priority > PRIORITY_LAMPORTS_MAX:
            _reject_step(f"it offers a priority fee of {priority} lamports")

    def _read_instruction(
        self, number: int, program: str, data: bytes, accounts: list[str]
    ) -> bool:
        account, token = self._terms.account, self._terms.token
        if program == _COMPUTE_BUDGET_PROGRAM:
            return not accounts and self._read_budget(data)
        if program == MEMO_PROGRAM:
            return account not in accounts
        if program == _SYSTEM_PROGRAM and data == _ADVANCE_NONCE:
            # replaces the blockhash, and only as the first instruction
            self.uses_durable_nonce = number == 0 and account not in accounts
            return self.uses_durable_nonce
        if program == _SYSTEM_PROGRAM and token is None:
            return self._read_coin_transfer(data, accounts)
        if program == _ASSOCIATED_TOKEN_PROGRAM and token is not None:
            self._account_creations += 1
            # its accounts: payer of the rent, the account, its owner, the mint
            return (
                data in _CREATE_ACCOUNT_DATA
                and accounts[0] == self._keys[0]
                and accounts[3] == token
            )
        if program in TOKEN_PROGRAMS and token is not None:
            return self._read_token_transfer(program, data, accounts)
        return False

    def _read_budget(self, data: bytes) -> bool:
        if data[:1] == b"\x02" and self._compute_units is None:
            self._compute_units = _UNIT_LIMIT_LAYOUT.unpack(data)[1]
            return True
        if data[:1] == b"\x03" and self._compute_price is None:
            self._compute_price = _UNIT_PRICE_LAYOUT.unpack(data)[1]
            return True
        return False

    def _read_coin_transfer(self, data: bytes, accounts: list[str]) -> bool:
        kind, lamports = _COIN_TRANSFER_LAYOUT.unpack(data)
        source, dest = accounts
        self.transfers.append((dest, lamports))
        return kind == _TRANSFER and source == self._terms.account != dest

    def _read_token_transfer(self, program: str, data: bytes, accounts: list[str]) -> bool:
        kind, amount, decimals = _TOKEN_TRANSFER_LAYOUT.unpack(data)
        source, mint, dest, owner = accounts
        if self.decimals not in {None, decimals}:
            return False
        self.decimals = decimals
        self.transfers.append((dest, amount))
        payer, token = Pubkey.from_string(self._terms.account), Pubkey.from_string(mint)
        own = str(derive_associated_account(payer, token, program))
        return (kind, mint, owner, source) == (
            _TRANSFER_CHECKED,
            self._terms.token,
            self._terms.account,
            own,
        ) and dest != source


def derive_associated_account(owner: Pubkey, mint: Pubkey, program: str) -> Pubkey:
    """Return the default account in which an owner holds a token."""
    seeds = [bytes(address) for address in (owner, Pubkey.from_string(program), mint)]
    return Pubkey.find_program_address(seeds, Pubkey.from_string(_ASSOCIATED_TOKEN_PROGRAM))[0]


def build_token_transfer(
    program: str, accounts: tuple[Pubkey, Pubkey, Pubkey, Pubkey], amount: int, decimals: int
) -> Instruction:
    """Return the transfer of a token; `accounts` are source, mint, receiving account and owner."""
    source, mint, dest, owner = accounts
    return Instruction(
        Pubkey.from_string(program),
        _TOKEN_TRANSFER_LAYOUT.pack(_TRANSFER_CHECKED, amount, decimals),
        [
            AccountMeta(source, is_signer=False, is_writable=True),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(dest, is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=True, is_writable=False),
        ],
    )


def _reject_step(why: str) -> NoReturn:
    raise WalletError(f"the action does not match the option: {why}")
