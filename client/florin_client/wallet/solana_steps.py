"""The one step of an option on Solana: a transaction that takes the price, read from its bytes."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_client.wallet.actions import Step, WalletError
from florin_client.wallet.terms import OptionTerms

_SYSTEM: Final = "11111111111111111111111111111111"
_TOKEN: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"  # noqa: S105  (a program)
_TOKEN_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"  # noqa: S105
_ASSOCIATED: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
_MEMO: Final = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
_COMPUTE_BUDGET: Final = "ComputeBudget111111111111111111111111111111"

_TRANSFER, _TRANSFER_CHECKED = 2, 12
_LAMPORTS = struct.Struct("<IQ")
_CHECKED = struct.Struct("<BQB")
_ADVANCE_NONCE: Final = struct.pack("<I", 4)
# opens a token account, in either form
_CREATES: Final = frozenset({b"", b"\x00", b"\x01"})
_UNIT_LIMIT, _UNIT_PRICE = struct.Struct("<BI"), struct.Struct("<BQ")

# the receiver, and who takes a fee
_TRANSFERS_MAX: Final = 2
_INSTRUCTIONS_MAX: Final = 16
# of a legacy transaction and of version 0; only version 1 may have more (SIMD-0385)
_BYTES_MAX: Final = 1_232
# the relayer pays it, not the buyer: more than that is no payment of a shop
PRIORITY_LAMPORTS_MAX: Final = 10_000_000
_UNITS_MAX: Final = 1_400_000


@dataclass(frozen=True, slots=True)
class SolanaPayment:
    """A transaction to sign: `amount` goes from the payer to `receivers`, `fee_payer` pays for it.

    Receivers are accounts with the amount of each: token accounts, or wallets for lamports.
    `decimals` is what the token's instructions say, which the chain compares; None for lamports.
    `durable` says that a durable nonce stands for the blockhash: what is signed then lasts as long
    as the payment, and otherwise 150 blocks.
    """

    method = "solana_signTransaction"

    transaction: VersionedTransaction
    token: str | None
    payer: str
    amount: int
    decimals: int | None
    receivers: tuple[tuple[str, int], ...]
    fee_payer: str
    durable: bool = False


def parse_step(step: Step, terms: OptionTerms) -> SolanaPayment:
    """Parse the step of an option; WalletError unless it takes the price and does nothing else."""
    if step.method != "solana_signTransaction":
        raise WalletError(f"this wallet does not execute {step.method[:80]}")
    transaction, message = _parse_transaction(step)
    keys = [str(one) for one in message.account_keys]
    signers = keys[: message.header.num_required_signatures]
    if len(signers) != 2 or signers[1] != terms.account or signers[0] == terms.account:
        _unfit("it is signed by the payer, after one other who pays for the transaction")
    reader = _Reader(message, keys, terms)
    reader.read()
    taken = sum(amount for _, amount in reader.transfers)
    if taken != terms.amount:
        _unfit(f"it takes {taken}, and the option costs {terms.amount}")
    return SolanaPayment(
        transaction=transaction,
        token=terms.token,
        payer=terms.account,
        amount=taken,
        decimals=reader.decimals,
        receivers=tuple(reader.transfers),
        fee_payer=keys[0],
        durable=reader.durable,
    )


def _parse_transaction(step: Step) -> tuple[VersionedTransaction, Message | MessageV0]:
    if len(step.params) != 1 or not isinstance(step.params[0], Mapping):
        _unfit("it has not one transaction")
    text = step.params[0].get("transaction")
    if step.params[0].keys() != {"transaction"} or not isinstance(text, str):
        _unfit("it has not one transaction")
    try:
        raw = base64.b64decode(text, validate=True)
        transaction = VersionedTransaction.from_bytes(raw)
    except (binascii.Error, ValueError):
        _unfit("that is no transaction")
    message = transaction.message
    if not isinstance(message, Message | MessageV0):
        _unfit("the transaction is of a version that this wallet cannot read")
    if bytes(transaction) != raw or len(raw) > _BYTES_MAX:
        _unfit("the transaction is not written as the chain does")
    if isinstance(message, MessageV0) and message.address_table_lookups:
        _unfit("it has accounts that are named elsewhere")
    if len(message.instructions) > _INSTRUCTIONS_MAX:
        _unfit("it has more instructions than a payment")
    return transaction, message


class _Reader:
    """Reads instructions in order; each is known, or the transaction is refused."""

    def __init__(self, message: Message | MessageV0, keys: list[str], terms: OptionTerms) -> None:
        self._message = message
        self._keys = keys
        self._terms = terms
        self._units: int | None = None
        self._price: int | None = None
        self._openings = 0
        self.transfers: list[tuple[str, int]] = []
        self.decimals: int | None = None
        self.durable = False

    def read(self) -> None:
        """Read all of them; WalletError for what is not part of a payment."""
        for number, one in enumerate(self._message.instructions):
            indexes = bytes(one.accounts)
            if max((one.program_id_index, *indexes)) >= len(self._keys):
                _unfit("an instruction names an account that is not there")
            program = self._keys[one.program_id_index]
            named = [self._keys[index] for index in indexes]
            try:
                known = self._instruction(number, program, bytes(one.data), named)
            except (struct.error, IndexError, ValueError):
                known = False
            if not known:
                _unfit(f"a call of {program} is no part of a payment")
        if len(self.transfers) > _TRANSFERS_MAX or self._openings > _TRANSFERS_MAX:
            _unfit("it has more transfers than a payment")
        units = _UNITS_MAX if self._units is None else self._units
        priority = (self._price or 0) * units // 1_000_000
        if priority > PRIORITY_LAMPORTS_MAX:
            _unfit(f"it offers {priority} lamports to be faster")

    def _instruction(self, number: int, program: str, data: bytes, named: list[str]) -> bool:
        account, token = self._terms.account, self._terms.token
        if program == _COMPUTE_BUDGET:
            return not named and self._budget(data)
        if program == _MEMO:
            return account not in named
        if program == _SYSTEM and data == _ADVANCE_NONCE:
            # stands for the blockhash, and only as the first
            self.durable = number == 0 and account not in named
            return self.durable
        if program == _SYSTEM and token is None:
            return self._moved_coin(data, named)
        if program == _ASSOCIATED and token is not None:
            self._openings += 1
            # who pays for it, the account, its owner, the mint
            return data in _CREATES and named[0] == self._keys[0] and named[3] == token
        if program in {_TOKEN, _TOKEN_2022} and token is not None:
            return self._moved_token(program, data, named)
        return False

    def _budget(self, data: bytes) -> bool:
        if data[:1] == b"\x02" and self._units is None:
            self._units = _UNIT_LIMIT.unpack(data)[1]
            return True
        if data[:1] == b"\x03" and self._price is None:
            self._price = _UNIT_PRICE.unpack(data)[1]
            return True
        return False

    def _moved_coin(self, data: bytes, named: list[str]) -> bool:
        kind, lamports = _LAMPORTS.unpack(data)
        source, dest = named
        self.transfers.append((dest, lamports))
        return kind == _TRANSFER and source == self._terms.account != dest

    def _moved_token(self, program: str, data: bytes, named: list[str]) -> bool:
        kind, amount, decimals = _CHECKED.unpack(data)
        source, mint, dest, owner = named
        if self.decimals not in {None, decimals}:
            return False
        self.decimals = decimals
        self.transfers.append((dest, amount))
        own = _associated(self._terms.account, mint, program)
        return (kind, mint, owner, source) == (
            _TRANSFER_CHECKED,
            self._terms.token,
            self._terms.account,
            own,
        ) and dest != source


def _associated(owner: str, mint: str, program: str) -> str:
    seeds = [bytes(Pubkey.from_string(one)) for one in (owner, program, mint)]
    return str(Pubkey.find_program_address(seeds, Pubkey.from_string(_ASSOCIATED))[0])


def _unfit(why: str) -> NoReturn:
    raise WalletError(f"the server asks for something else than the option says: {why}")
