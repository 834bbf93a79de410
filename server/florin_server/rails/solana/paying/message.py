"""The message that a wallet signs, and the changes that a wallet can make to it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, from_bytes_versioned, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES

GUARDS_MAX = 4  # added by the best known wallet: three before the transfer, one after
GUARD_BYTES_MAX = 512
# Instructions of the guard program that only compare: data, a difference, an account, a mint, a
# token account, a stake account, a program, the clock. An instruction that writes to its memory
# accounts, or calls another program about trees, is not a guard.
_ASSERTIONS = frozenset(range(2, 15))
# guards that compare one account's balance, size and owner: no other can name the relayer
_ACCOUNT_ASSERTIONS = frozenset({4, 5})
_GUARD_ACCOUNTS_MAX = 2  # a difference is between two accounts

_LAPSE_PREFIX = "florin: good until block "

_Step: TypeAlias = tuple[Pubkey, tuple[Pubkey, ...], bytes]


def compile_message(
    relayer: Pubkey, instructions: Sequence[Instruction], blockhash: Hash
) -> MessageV0:
    """Return the message of a transaction whose fee the relayer pays.

    Raise ValueError if the signed transaction would be longer than clusters accept.
    """
    message = MessageV0.try_compile(relayer, list(instructions), [], blockhash)
    if (size := len(base64.b64decode(encode_unsigned(message)))) > PACKET_BYTES:
        raise ValueError(f"a transaction of {size} bytes is longer than {PACKET_BYTES}")
    return message


def build_lapse_note(last_valid: int) -> Instruction:
    """Build the memo that records up to which block height our transaction can land."""
    return spl.create_memo(f"{_LAPSE_PREFIX}{last_valid}")


def find_lapse_height(message: MessageV0) -> int | None:
    """Return the height in a message's memo; None if it has none."""
    program, _, data = list_steps(message)[-1]
    text = data.decode(errors="replace")
    height = text.removeprefix(_LAPSE_PREFIX)
    is_lapse = program == spl.MEMO and text.startswith(_LAPSE_PREFIX) and height.isdecimal()
    return int(height) if is_lapse else None


def encode_unsigned(message: MessageV0) -> str:
    """Return the transaction with empty signatures, in base64."""
    empty = [Signature.default()] * message.header.num_required_signatures
    return base64.b64encode(bytes(VersionedTransaction.populate(message, empty))).decode()


def serialize_message(message: MessageV0) -> str:
    """Return a message as text."""
    return base64.b64encode(to_bytes_versioned(message)).decode()


def deserialize_message(text: str) -> MessageV0:
    """Parse a message from its text."""
    message = from_bytes_versioned(base64.b64decode(text))
    if not isinstance(message, MessageV0):
        raise TypeError("a stored message must have version 0")
    return message


@dataclass(frozen=True, slots=True)
class WalletBounds:
    """Limits for a wallet's changes: compute price, compute units, and added guards."""

    price: int
    units: int
    guards: int = GUARDS_MAX


def is_acceptable(issued: MessageV0, received: MessageV0, bounds: WalletBounds) -> bool:
    """Return True if a message does what ours does, and costs others nothing more.

    A wallet can set the compute price and the compute units, and add guards that compare accounts
    and change none. A guard can read the relayer's account itself, but nothing else of the relayer.
    """
    if to_bytes_versioned(issued) == to_bytes_versioned(received):
        return True
    if received.address_table_lookups or received.recent_blockhash != issued.recent_blockhash:
        return False
    signers = issued.header.num_required_signatures
    if (
        received.header.num_required_signatures != signers
        or received.account_keys[:signers] != issued.account_keys[:signers]
    ):
        return False
    expected = list_steps(issued)
    if _is_nonce_advance(expected[0]) and list_steps(received)[:1] != expected[:1]:
        # the advance makes the nonce act as the blockhash only as the first instruction
        return False
    guards = 0
    for step in list_steps(received):
        if expected and (step == expected[0] or _is_budget_within(expected[0], step, bounds)):
            expected = expected[1:]
        elif is_guard(step, relayer=issued.account_keys[0]):
            guards += 1
        else:
            return False
    return not expected and guards <= bounds.guards and _has_same_rights(issued, received)


def list_steps(message: MessageV0) -> list[_Step]:
    """Return program, accounts and data of each instruction."""
    keys = message.account_keys
    return [
        (
            keys[compiled_instruction.program_id_index],
            tuple(keys[index] for index in bytes(compiled_instruction.accounts)),
            bytes(compiled_instruction.data),
        )
        for compiled_instruction in message.instructions
    ]


def is_guard_at(message: MessageV0, index: int) -> bool:
    """Return True if an instruction of a message, counted from 0, calls the guard program."""
    steps = list_steps(message)
    return 0 <= index < len(steps) and steps[index][0] == spl.LIGHTHOUSE


def _is_budget_within(issued: _Step, received: _Step, bounds: WalletBounds) -> bool:
    """Return True if both set the same compute limit, and the wallet's value is within bounds."""
    if issued[0] != spl.COMPUTE_BUDGET or received[0] != spl.COMPUTE_BUDGET or received[1]:
        return False
    kind, value = received[2][:1], received[2][1:]
    if kind != issued[2][:1]:
        return False
    if kind == spl.COMPUTE_UNIT_PRICE and len(value) == 8:
        return int.from_bytes(value, "little") <= bounds.price
    if kind == spl.COMPUTE_UNIT_LIMIT and len(value) == 4:
        return int.from_bytes(value, "little") <= bounds.units
    return False


def _is_nonce_advance(step: _Step) -> bool:
    return (step[0], step[2]) == (spl.SYSTEM, spl.ADVANCE_NONCE)


def is_guard(step: _Step, relayer: Pubkey) -> bool:
    """Return True if a wallet's instruction only compares accounts."""
    program, accounts, data = step
    if program != spl.LIGHTHOUSE or not 0 < len(data) <= GUARD_BYTES_MAX:
        return False
    if data[0] not in _ASSERTIONS or len(accounts) > _GUARD_ACCOUNTS_MAX:
        return False
    # the fee payer can sign and write in every instruction that names it
    return relayer not in accounts or (accounts == (relayer,) and data[0] in _ACCOUNT_ASSERTIONS)


def _has_same_rights(issued: MessageV0, received: MessageV0) -> bool:
    """Return True if both messages give our accounts equal write access, and new accounts none."""
    places = {key: index for index, key in enumerate(received.account_keys)}
    if any(
        received.is_maybe_writable(index)
        for key, index in places.items()
        if key not in issued.account_keys
    ):
        return False
    return all(
        key in places and received.is_maybe_writable(places[key]) == issued.is_maybe_writable(index)
        for index, key in enumerate(issued.account_keys)
    )
