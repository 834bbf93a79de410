"""The reason that a contract gave when it reverted, made safe to show.

Strangers choose that text: it is shortened, contains only printable ASCII, and decides nothing.
"""

from __future__ import annotations

from typing import Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.reading.node import parse_data
from florin_server.rails.types import RailUnavailable

REASON_MAX: Final = 100  # the longest sentence of the usual tokens has about 60 characters
_ERROR: Final = abi.encode_selector("Error(string)")
_PANIC: Final = abi.encode_selector("Panic(uint256)")
# of the settlement contract, Permit2, and the libraries that tokens are built from
_NAMED_ERRORS: Final = {
    abi.encode_selector(f"{signature}"): signature.partition("(")[0]
    for signature in (
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


def format_revert(refusal: RpcError) -> str:
    """Return a revert's reason in a few words; empty if it has none, as with old contracts."""
    try:
        data = parse_data(refusal.data)
    except RailUnavailable:
        return ""
    return format_revert_data(data)


def format_revert_data(revert_data: bytes) -> str:
    """Return the reason in a revert's data in a few words; empty if it has none."""
    head, rest = revert_data[:4], revert_data[4:]
    if head == _ERROR:
        try:
            return sanitize_text(abi.decode_bytes_at(rest, 0).decode("ascii", "replace"))
        except ValueError:
            return ""
    if head == _PANIC and len(rest) == abi.WORD:
        return f"panic 0x{int.from_bytes(rest, 'big'):x}"
    if len(head) < len(_ERROR):
        return ""
    return _NAMED_ERRORS.get(head, f"error 0x{head.hex()}")


def sanitize_text(words: str) -> str:
    """Return a stranger's text in a form that operators and wallets can see."""
    cut = words if len(words) <= REASON_MAX else f"{words[: REASON_MAX - 3]}..."
    return "".join(character if " " <= character <= "~" else "?" for character in cut)
