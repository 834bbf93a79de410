"""A token's own data, read from its chain before an operator adds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import Eip712Domain
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.node import EvmNode, build_call, parse_returned

_TEXTS = tuple(map(abi.encode_selector, ("name()", "symbol()", "version()")))
_DECIMALS = abi.encode_selector("decimals()")
_SEPARATOR = abi.encode_selector("DOMAIN_SEPARATOR()")
# an unsigned transfer: a token with this function refuses it with a reason
_RECEIVE = (
    abi.encode_selector(
        "receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
    )
    + abi.encode_address(ZERO_ADDRESS) * 2
    + bytes(4 * abi.WORD)
    + abi.encode_uint256(7 * abi.WORD)
    + abi.encode_bytes(bytes(65))
)
# versions of tokens that do not expose their version
_USUAL_VERSIONS = ("1", "2")


@dataclass(frozen=True, slots=True)
class OnChainToken:
    """A token as its chain reports it.

    `domain` is the name and version of its signatures, proven by its domain separator.
    `has_signed_transfers` is true if it accepts signed transfers (EIP-3009, signatures of any
    length).
    """

    name: str
    symbol: str
    decimals: int
    domain: tuple[str, str] | None
    has_signed_transfers: bool


async def find_token(node: EvmNode, chain_id: int, address: str) -> OnChainToken | None:
    """Return a token's data, or None if no token is at the address; one batched read."""
    selectors = (*_TEXTS, _DECIMALS, _SEPARATOR, _RECEIVE)
    *texts, decimals, separator, refusal = await node.batch(
        [build_call(address, selector) for selector in selectors]
    )
    count = parse_returned(decimals)
    if count is None or len(count) != abi.WORD or int.from_bytes(count, "big") > 36:
        return None
    name, symbol, version = map(_decode_text, texts)
    return OnChainToken(
        name=name or symbol or address,
        symbol=symbol or name or address,
        decimals=int.from_bytes(count, "big"),
        domain=_find_domain(chain_id, address, (name, version), parse_returned(separator)),
        has_signed_transfers=_has_reason(refusal),
    )


def _find_domain(
    chain_id: int, address: str, texts: Sequence[str | None], separator: bytes | None
) -> tuple[str, str] | None:
    name, version = texts
    if name is None or separator is None:
        return None
    for candidate_version in (version,) if version is not None else _USUAL_VERSIONS:
        if (
            Eip712Domain(name, candidate_version, chain_id, address).compute_separator()
            == separator
        ):
            return name, candidate_version
    return None


def _has_reason(answer: Any) -> bool:
    return (
        isinstance(answer, RpcError)
        and answer.is_revert
        and isinstance(answer.data, str)
        and len(answer.data) > len("0x")
    )


def _decode_text(answer: Any) -> str | None:
    returned = parse_returned(answer)
    try:
        text = "" if returned is None else abi.decode_string(returned)
    except ValueError:
        return None
    # the text is shown to people and stored
    return text if text.isprintable() and 0 < len(text) <= 100 else None
