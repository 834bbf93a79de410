"""What a contract said when it reverted, made safe to be shown.

Strangers choose those words: they are cut, hold nothing but printable ASCII, and decide nothing.
"""

from __future__ import annotations

from typing import Final

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.reading.node import data
from florin_server.rails.types import RailUnavailable

SAID_MAX: Final = 100  # the longest of the usual tokens' sentences has some 60 characters
_ERROR: Final = abi.selector("Error(string)")
_PANIC: Final = abi.selector("Panic(uint256)")
# of the settlement contract, Permit2, and the libraries that tokens are made of
_NAMED: Final = {
    abi.selector(f"{one}"): one.partition("(")[0]
    for one in (
        "TransferFailed()",
        "TransferFromFailed()",
        "SignatureExpired(uint256)",
        "InvalidNonce()",
        "InvalidSigner()",
        "InvalidContractSignature()",
        "EnforcedPause()",
        "ContractPaused()",
        "AddressFrozen()",
        "ERC20InsufficientBalance(address,uint256,uint256)",
        "ERC20InsufficientAllowance(address,uint256,uint256)",
    )
}


def said(refusal: RpcError) -> str:
    """The reason of a revert in a few words; empty if it has none, as those of old contracts."""
    try:
        told = data(refusal.data)
    except RailUnavailable:
        return ""
    return said_in(told)


def said_in(told: bytes) -> str:
    """The same of what was reverted with."""
    head, rest = told[:4], told[4:]
    if head == _ERROR:
        try:
            return shown(abi.bytes_at(rest, 0).decode("ascii", "replace"))
        except ValueError:
            return ""
    if head == _PANIC and len(rest) == abi.WORD:
        return f"panic 0x{int.from_bytes(rest, 'big'):x}"
    if len(head) < len(_ERROR):
        return ""
    return _NAMED.get(head, f"error 0x{head.hex()}")


def shown(words: str) -> str:
    """Words of a stranger as operators and wallets may see them."""
    cut = words if len(words) <= SAID_MAX else f"{words[: SAID_MAX - 3]}..."
    return "".join(one if " " <= one <= "~" else "?" for one in cut)
