"""Whether tokens can have an account's signature, found out before it is asked for one.

Tokens ask an account with code whether it signed (ERC-1271), even if it has a key too (EIP-7702).
What an account says about itself decides only what it is offered: its signature is proven later.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import Call
from florin_server.rails.evm.paying.verify import wallet_question
from florin_server.rails.evm.reading.node import call_to, returned
from florin_server.rails.evm.reading.reads import Answer, Question
from florin_server.rails.evm.sending.fees import KEY_GAS, WALLET_GAS, dry_run_gas
from florin_server.rails.types import RailUnavailable


class Signing(Enum):
    """Whether an account signs. One of which that stays open is offered both ways."""

    DOES = auto()
    MAY = auto()
    NEVER = auto()


# Signatures that nobody made, in the forms that accounts read: a key's, and a passkey's, of which
# some name the owner first. Who reads another form than it is asked in reverts without a word, as
# one does that reads none. Read as the former kind, the second names owner 192 and an empty
# signature; as the latter, an answer of a device with nothing in it.
_OF_A_KEY: Final = bytes(65)
_OF_A_PASSKEY: Final = b"".join(
    map(abi.number, (abi.WORD, 6 * abi.WORD, 7 * abi.WORD, 0, 0, 0, 0, 0, 0))
)
_PROBES: Final = tuple(
    wallet_question(bytes(abi.WORD), signature) for signature in (_OF_A_KEY, _OF_A_PASSKEY)
)

# what some kinds of accounts tell of themselves: Safe's of how many must sign, Coinbase's who is
# their first owner
_THRESHOLD: Final = abi.selector("getThreshold()")
_FIRST_OWNER: Final = abi.selector("ownerAtIndex(uint256)") + abi.number(0)
_OWNERS_MAX: Final = 10_000  # more could not be told in a transaction
_ABOUT_GAS: Final = 60_000
_PASSKEY_BYTES: Final = 64  # a point of the curve; an address takes one word

# Measured: what Safe's account takes for its signatures besides those, and for each of them. A
# payment with a key takes from 101,000 to all that it may.
_MANY_GAS: Final = 25_000
_EACH_GAS: Final = 6_500
_CHEAPEST_GAS: Final = 101_000

# The precompiled contract that checks a passkey (RIP-7212, EIP-7951), and a signature of 1 by the
# key 1. Without it code does that, and takes more than a payment has left for it.
_P256: Final = "0x" + (0x100).to_bytes(20, "big").hex()
_P256_SIGNED: Final = b"".join(
    map(
        abi.number,
        (
            1,
            0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978,
            0xBE793D8BC681A7BFC5291C01825A8D61BEB832480F84DCDD4CE289DFA1E4DF65,
            0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
            0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
        ),
    )
)

QUESTIONS: Final = len(_PROBES) + 2


def questions(account: bytes) -> list[Question]:
    """What an account is asked, if it has code."""
    return [
        *(Question(account, probe, dry_run_gas(probe), of=account) for probe in _PROBES),
        Question(account, _THRESHOLD, _ABOUT_GAS, of=account),
        Question(account, _FIRST_OWNER, _ABOUT_GAS, most=2 * abi.WORD, of=account),
    ]


def judged(answers: Sequence[Answer], *, passkeys: bool) -> Signing | None:
    """The verdict on an account; None if it has no code.

    `passkeys` tells that the chain checks those by itself.
    """
    asked = [one for one in answers if one is not None]
    if len(asked) != QUESTIONS:
        return None
    *tried, (counts, threshold), (owned, owner) = asked
    if any(_speaks(*one) for one in tried):
        by_passkey = owned and owner[abi.WORD :] == abi.number(_PASSKEY_BYTES)
        if by_passkey and not passkeys:
            return Signing.NEVER
        count = int.from_bytes(threshold, "big") if counts else 0
        # code that answers everything alike has not counted anything
        return _by_many(count if count <= _OWNERS_MAX else 0)
    # a call that goes well without an answer was taken by code that takes every call
    return Signing.NEVER if any(good for good, _ in tried) else Signing.MAY


def ask_passkeys() -> Call:
    """Asks a chain whether it checks passkeys."""
    return call_to(_P256, _P256_SIGNED)


def checks_passkeys(answer: Any) -> bool:
    """What the chain answered; one that said nothing does not."""
    try:
        return returned(answer) == abi.number(1)
    except RailUnavailable:
        return False


def _by_many(threshold: int) -> Signing:
    """Whether so many signatures fit into what a payment has, whatever its token takes of it."""
    needed = _MANY_GAS + _EACH_GAS * threshold
    if needed > WALLET_GAS - _CHEAPEST_GAS:
        return Signing.NEVER
    return Signing.MAY if needed > WALLET_GAS - KEY_GAS else Signing.DOES


def _speaks(good: bool, told: bytes) -> bool:
    """True if an account answered a question for its signature, or refused it with a reason."""
    return len(told) >= abi.WORD if good else bool(told)
