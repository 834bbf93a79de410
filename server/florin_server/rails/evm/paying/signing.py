"""The ability of accounts to sign for tokens, determined before an account is asked to.

Tokens ask an account with code whether it signed (ERC-1271), even if it also has a key (EIP-7702).
An account's claims decide only what it is offered: its signature is proven later.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcCall
from florin_server.rails.evm.paying.verify import encode_wallet_check
from florin_server.rails.evm.reading.node import build_call, parse_returned
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion
from florin_server.rails.evm.sending.fees import KEY_GAS, WALLET_GAS, compute_dry_run_gas
from florin_server.rails.types import RailUnavailable


class SigningAbility(Enum):
    """An account's ability to sign. An account whose ability is unclear is offered both ways."""

    SIGNS = auto()
    MAY_SIGN = auto()
    NEVER_SIGNS = auto()


# Invalid signatures in the forms that accounts read: a key's, and a passkey's, of which some name
# the owner first. An account that reads another form reverts without data, like an account that
# reads none. Read as the former kind, the second names owner 192 and an empty signature; as the
# latter, an empty answer of a device.
_KEY_SIGNATURE: Final = bytes(65)
_PASSKEY_SIGNATURE: Final = b"".join(
    map(abi.encode_uint256, (abi.WORD, 6 * abi.WORD, 7 * abi.WORD, 0, 0, 0, 0, 0, 0))
)
_PROBES: Final = tuple(
    encode_wallet_check(bytes(abi.WORD), signature)
    for signature in (_KEY_SIGNATURE, _PASSKEY_SIGNATURE)
)

# claims of some kinds of accounts: Safe's threshold of signers, Coinbase's first owner
_THRESHOLD: Final = abi.encode_selector("getThreshold()")
_FIRST_OWNER: Final = abi.encode_selector("ownerAtIndex(uint256)") + abi.encode_uint256(0)
_OWNERS_MAX: Final = 10_000  # a transaction could not carry more
_OVERHEAD_GAS: Final = 60_000
_PASSKEY_BYTES: Final = 64  # a point of the curve; an address takes one word

# Measured: the gas of Safe's account for its signatures, without and per signature. A payment with
# a key takes from 101,000 gas up to its limit.
_MULTISIG_GAS: Final = 25_000
_OWNER_GAS: Final = 6_500
_CHEAPEST_GAS: Final = 101_000

# The precompiled contract that checks a passkey (RIP-7212, EIP-7951), and a signature of 1 by the
# key 1. Without it the account's own code checks it, which takes more gas than a payment has left.
_P256: Final = "0x" + (0x100).to_bytes(20, "big").hex()
_P256_SIGNED: Final = b"".join(
    map(
        abi.encode_uint256,
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


def build_questions(account: bytes) -> list[ContractQuestion]:
    """Return the questions for an account, which are answered if it has code."""
    return [
        *(
            ContractQuestion(account, probe, compute_dry_run_gas(probe), owner=account)
            for probe in _PROBES
        ),
        ContractQuestion(account, _THRESHOLD, _OVERHEAD_GAS, owner=account),
        ContractQuestion(
            account, _FIRST_OWNER, _OVERHEAD_GAS, max_bytes=2 * abi.WORD, owner=account
        ),
    ]


def judge_signing(
    answers: Sequence[ContractAnswer], *, has_passkeys: bool
) -> SigningAbility | None:
    """Return the verdict on an account; None if it has no code.

    `has_passkeys` says whether the chain checks passkeys itself.
    """
    present_answers = [answer for answer in answers if answer is not None]
    if len(present_answers) != QUESTIONS:
        return None
    *tried, (counts, threshold), (owned, owner) = present_answers
    if any(_is_meaningful(*outcome) for outcome in tried):
        by_passkey = owned and owner[abi.WORD :] == abi.encode_uint256(_PASSKEY_BYTES)
        if by_passkey and not has_passkeys:
            return SigningAbility.NEVER_SIGNS
        count = int.from_bytes(threshold, "big") if counts else 0
        # code that answers every call alike has not counted owners
        return _judge_multisig(count if count <= _OWNERS_MAX else 0)
    # a call that succeeds without an answer reached code that accepts every call
    return SigningAbility.NEVER_SIGNS if any(good for good, _ in tried) else SigningAbility.MAY_SIGN


def build_passkey_call() -> RpcCall:
    """Build the call that asks a chain whether it checks passkeys."""
    return build_call(_P256, _P256_SIGNED)


def parse_passkey_support(answer: Any) -> bool:
    """Return whether the chain checks passkeys; an empty answer means no."""
    try:
        return parse_returned(answer) == abi.encode_uint256(1)
    except RailUnavailable:
        return False


def _judge_multisig(threshold: int) -> SigningAbility:
    """Return whether a number of signatures fits a payment's gas, whichever token it pays in."""
    needed = _MULTISIG_GAS + _OWNER_GAS * threshold
    if needed > WALLET_GAS - _CHEAPEST_GAS:
        return SigningAbility.NEVER_SIGNS
    return SigningAbility.MAY_SIGN if needed > WALLET_GAS - KEY_GAS else SigningAbility.SIGNS


def _is_meaningful(is_success: bool, returned: bytes) -> bool:
    """Return True if an account accepted a probe's signature, or refused it with a reason."""
    return len(returned) >= abi.WORD if is_success else bool(returned)
