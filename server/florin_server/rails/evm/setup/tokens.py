"""What a token says about itself, read from its chain before anybody writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.chains.evm import abi
from florin_server.chains.evm.typed_data import Domain
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying.terms import NOBODY
from florin_server.rails.evm.reading.node import Node, call_to, returned

_TEXTS = tuple(map(abi.selector, ("name()", "symbol()", "version()")))
_DECIMALS = abi.selector("decimals()")
_SEPARATOR = abi.selector("DOMAIN_SEPARATOR()")
# a transfer that nobody signed: a token that knows such transfers refuses it with a reason
_RECEIVE = (
    abi.selector("receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")
    + abi.address(NOBODY) * 2
    + bytes(4 * abi.WORD)
    + abi.number(7 * abi.WORD)
    + abi.padded(bytes(65))
)
# what tokens use that keep their version to themselves
_USUAL_VERSIONS = ("1", "2")


@dataclass(frozen=True, slots=True)
class Found:
    """A token as its chain tells it.

    `domain` is name and version of its own signatures, proven by its domain separator;
    `by_signature` tells that it takes signed transfers (EIP-3009, signatures of any length).
    """

    name: str
    symbol: str
    decimals: int
    domain: tuple[str, str] | None
    by_signature: bool


async def read(node: Node, chain_id: int, address: str) -> Found | None:
    """What a token says; None if there is none at the address. One batched read."""
    asked = (*_TEXTS, _DECIMALS, _SEPARATOR, _RECEIVE)
    *texts, decimals, separator, refusal = await node.batch(
        [call_to(address, one) for one in asked]
    )
    count = returned(decimals)
    if count is None or len(count) != abi.WORD or int.from_bytes(count, "big") > 36:
        return None
    name, symbol, version = map(_text, texts)
    return Found(
        name=name or symbol or address,
        symbol=symbol or name or address,
        decimals=int.from_bytes(count, "big"),
        domain=_domain(chain_id, address, (name, version), returned(separator)),
        by_signature=_has_reason(refusal),
    )


def _domain(
    chain_id: int, address: str, said: Sequence[str | None], separator: bytes | None
) -> tuple[str, str] | None:
    name, version = said
    if name is None or separator is None:
        return None
    for one in (version,) if version is not None else _USUAL_VERSIONS:
        if Domain(name, one, chain_id, address).separator() == separator:
            return name, one
    return None


def _has_reason(answer: Any) -> bool:
    return (
        isinstance(answer, RpcError)
        and answer.is_revert
        and isinstance(answer.data, str)
        and len(answer.data) > len("0x")
    )


def _text(answer: Any) -> str | None:
    said = returned(answer)
    try:
        text = "" if said is None else abi.text_of(said)
    except ValueError:
        return None
    # it is shown to people, and written down
    return text if text.isprintable() and 0 < len(text) <= 100 else None
