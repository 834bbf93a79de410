"""Accounts with code that say one thing when they are tried and another on the chain.

Each is a contract's code in hex, to be put at an account (EIP-7702) or created with it.
"""

from __future__ import annotations

# ERC-1271's answer, whatever was signed; placed behind a jump
_ACCEPTS = "5b7f1626ba7e" + "00" * 28 + "60005260206000f3"
# jumps to `_ACCEPTS` if the number on the stack is zero, and else runs until no gas is left
_UNLESS_ZERO_BURNS = "1560{accepts:02x}575b60{loop:02x}56"


def _burning_unless_zero(number: str, at: int = 0) -> str:
    """Code that begins at a place of its contract; `number` pushes what must be zero."""
    begins = at + len(number) // 2
    loop, accepts = begins + 4, begins + 8
    return number + _UNLESS_ZERO_BURNS.format(accepts=accepts, loop=loop) + _ACCEPTS


# accepts what costs nothing: a question
BURNS_FOR_A_PRICE = _burning_unless_zero("3a")
# Accepts while its first slot is zero. Whoever calls it with no data sets that to the coin that
# comes along.
SWITCHED = "36600a57345f55000000" + _burning_unless_zero("5b5f54", 10)


# whoever tries it does so for another block than the one in which it comes to stand, half the time
BURNS_IN_ODD_BLOCKS = _burning_unless_zero("60014316")
# a token of which everybody has as much as anybody wants
ANY_TOKEN = "60015f5260205ff3"


def burns_from(number: int) -> str:
    """Accepts up to a block."""
    return _burning_unless_zero(f"63{number:08x}4311")


def burns_when_rich(address: str) -> str:
    """Accepts while an address has no coin."""
    return _burning_unless_zero(f"73{address[2:]}31")
