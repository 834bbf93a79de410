"""The message that a wallet signs, and what a wallet may add to it."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import TypeAlias

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, from_bytes_versioned, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl

GUARDS_MAX = 3  # what the best known wallets add, and one more
GUARD_BYTES_MAX = 512

_LAPSES = "florin: good until block "

_Step: TypeAlias = tuple[Pubkey, tuple[Pubkey, ...], bytes]


def compile_message(
    relayer: Pubkey, instructions: Sequence[Instruction], blockhash: Hash
) -> MessageV0:
    """The message of a transaction whose fee the relayer pays."""
    return MessageV0.try_compile(relayer, list(instructions), [], blockhash)


def lapse_note(last_valid: int) -> Instruction:
    """Tells in a transaction of our own until which block height it can land."""
    return spl.memo(f"{_LAPSES}{last_valid}")


def lapses_at(message: MessageV0) -> int | None:
    """The height in a message's note; None if it has none."""
    program, _, data = _steps(message)[-1]
    text = data.decode(errors="replace")
    height = text.removeprefix(_LAPSES)
    told = program == spl.MEMO and text.startswith(_LAPSES) and height.isdecimal()
    return int(height) if told else None


def unsigned(message: MessageV0) -> str:
    """The transaction with empty signatures, in base64."""
    empty = [Signature.default()] * message.header.num_required_signatures
    return base64.b64encode(bytes(VersionedTransaction.populate(message, empty))).decode()


def stored(message: MessageV0) -> str:
    """A message as text."""
    return base64.b64encode(to_bytes_versioned(message)).decode()


def restored(text: str) -> MessageV0:
    """A message from its text."""
    found = from_bytes_versioned(base64.b64decode(text))
    if not isinstance(found, MessageV0):
        raise TypeError("a stored message is of version 0")
    return found


def acceptable(ours: MessageV0, got: MessageV0, price_max: int) -> bool:
    """True if a message does what ours does, and nothing else that costs anybody else anything.

    A wallet may raise the compute price up to a limit, and add guards that read the accounts of
    the payer and of others, but never the relayer's.
    """
    if to_bytes_versioned(ours) == to_bytes_versioned(got):
        return True
    if got.address_table_lookups or got.recent_blockhash != ours.recent_blockhash:
        return False
    signers = ours.header.num_required_signatures
    if (
        got.header.num_required_signatures != signers
        or got.account_keys[:signers] != ours.account_keys[:signers]
    ):
        return False
    expected = _steps(ours)
    if _advances(expected[0]) and _steps(got)[:1] != expected[:1]:
        # it stands for the blockhash only as the first
        return False
    guards = 0
    for step in _steps(got):
        if expected and (step == expected[0] or _raised(expected[0], step, price_max)):
            expected = expected[1:]
        elif _is_guard(step, relayer=ours.account_keys[0]):
            guards += 1
        else:
            return False
    return not expected and guards <= GUARDS_MAX and _same_rights(ours, got)


def _steps(message: MessageV0) -> list[_Step]:
    keys = message.account_keys
    return [
        (
            keys[one.program_id_index],
            tuple(keys[index] for index in bytes(one.accounts)),
            bytes(one.data),
        )
        for one in message.instructions
    ]


def _raised(ours: _Step, got: _Step, price_max: int) -> bool:
    """True if both set the compute price and theirs is within the limit."""
    if ours[0] != spl.COMPUTE_BUDGET or got[0] != spl.COMPUTE_BUDGET or got[1]:
        return False
    if not (ours[2][:1] == got[2][:1] == spl.COMPUTE_UNIT_PRICE and len(got[2]) == 9):
        return False
    return int(struct.unpack("<Q", got[2][1:])[0]) <= price_max


def _advances(step: _Step) -> bool:
    return (step[0], step[2]) == (spl.SYSTEM, spl.ADVANCE_NONCE)


def _is_guard(step: _Step, relayer: Pubkey) -> bool:
    program, accounts, data = step
    return program == spl.LIGHTHOUSE and relayer not in accounts and len(data) <= GUARD_BYTES_MAX


def _same_rights(ours: MessageV0, got: MessageV0) -> bool:
    """True if no account of ours is writable in one message only."""
    places = {key: index for index, key in enumerate(got.account_keys)}
    return all(
        key in places and got.is_maybe_writable(places[key]) == ours.is_maybe_writable(index)
        for index, key in enumerate(ours.account_keys)
    )
