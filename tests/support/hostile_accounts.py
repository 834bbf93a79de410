"""Accounts whose code behaves differently in a dry run and on the chain.

Each is a contract's code in hex, to be set at an account (EIP-7702) or created with it.
"""

from __future__ import annotations

# ERC-1271's answer to any signed data; placed behind a jump
_ACCEPTS = "5b7f1626ba7e" + "00" * 28 + "60005260206000f3"
# jumps to `_ACCEPTS` if the number on the stack is zero, and else runs until the gas is used up
_UNLESS_ZERO_BURNS = "1560{accepts:02x}575b60{loop:02x}56"


def _make_burns_unless_zero(number: str, at: int = 0) -> str:
    """Return code that begins at offset `at`; `number` pushes what must be zero."""
    begins = at + len(number) // 2
    loop, accepts = begins + 4, begins + 8
    return number + _UNLESS_ZERO_BURNS.format(accepts=accepts, loop=loop) + _ACCEPTS


# accepts calls that cost nothing: dry runs
BURNS_FOR_A_PRICE = _make_burns_unless_zero("3a")
# Accepts while its first slot is zero. A call with no data sets the slot to the coin that it
# brings.
SWITCHED = "36600a57345f55000000" + _make_burns_unless_zero("5b5f54", 10)


# half the time, a dry run is for another block than the one that includes the transaction
BURNS_IN_ODD_BLOCKS = _make_burns_unless_zero("60014316")
# a token whose balances are unlimited for every address
ANY_TOKEN = "60015f5260205ff3"


def make_burns_from_block(number: int) -> str:
    """Return code that accepts up to a block."""
    return _make_burns_unless_zero(f"63{number:08x}4311")


def make_burns_when_rich(address: str) -> str:
    """Return code that accepts while an address has no coin."""
    return _make_burns_unless_zero(f"73{address[2:]}31")
