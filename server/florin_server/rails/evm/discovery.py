"""What a chain really is, compared with what the operator said; and what accounts hold on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.domain.route import Route
from florin_server.rails.base import Asset, RailUnavailable
from florin_server.rails.evm import abi, settler
from florin_server.rails.evm.node import LATEST, Node, call_to, data, quantity, uint
from florin_server.rails.evm.settings import EvmAsset, EvmChain
from florin_server.rails.evm.terms import NOBODY, bare
from florin_server.rails.evm.typed_data import Domain
from florin_server.rails.evm.verify import BALANCE_OF
from florin_server.rails.jsonrpc import Call, RpcError

DECIMALS = abi.selector("decimals()")
NAME = abi.selector("name()")
VERSION = abi.selector("version()")
DOMAIN_SEPARATOR = abi.selector("DOMAIN_SEPARATOR()")
_TOKEN_CALLS = (DECIMALS, NAME, VERSION, DOMAIN_SEPARATOR)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The assets that may be offered, by CAIP-19, and sentences about all that may not."""

    assets: Mapping[str, Asset]
    problems: tuple[str, ...]


async def inspect(node: Node, chain: EvmChain, sender: str) -> Inspection:
    """Compares chain, settlement contract and tokens with the settings; one batched read."""
    probe = _probe(chain)
    calls: list[Call] = [
        ("eth_chainId", ()),
        ("eth_getCode", (chain.settler, LATEST)),
        ("eth_getBalance", (sender, LATEST)),
        call_to(chain.settler, settler.route_nonce(probe)),
        *(call_to(token.address, ask) for token in chain.assets for ask in _TOKEN_CALLS),
    ]
    answers = await node.batch(calls)
    number = quantity(answers[0])
    if number != chain.chain_id:
        return Inspection(
            {}, (f"{chain.name}: the node serves chain {number}, not {chain.chain_id}",)
        )
    if (fault := _settler_fault(chain, probe, answers[1], answers[3])) is not None:
        return Inspection({}, (fault,))
    problems = []
    if quantity(answers[2]) == 0:
        problems.append(f"{chain.name}: {sender} has no coin to pay for gas")
    assets = {}
    for index, token in enumerate(chain.assets):
        first = 4 + index * len(_TOKEN_CALLS)
        difference = _token_fault(chain, token, answers[first : first + len(_TOKEN_CALLS)])
        if difference is None:
            asset = asset_of(chain, token)
            assets[asset.id] = asset
        else:
            problems.append(f"{chain.name}: {token.symbol} at {token.address} {difference}")
    return Inspection(assets, tuple(problems))


async def balances(
    node: Node, payers: Sequence[str], assets: Sequence[Asset]
) -> dict[tuple[str, str], int]:
    """What each payer (CAIP-10) holds of each asset; one batched read."""
    pairs = [(payer, asset) for payer in payers for asset in assets]
    answers = await node.batch(
        [call_to(asset.address, BALANCE_OF + abi.address(bare(payer))) for payer, asset in pairs]
    )
    return {
        (payer, asset.id): uint(answer)
        for (payer, asset), answer in zip(pairs, answers, strict=True)
        # a token that reverts on an account's balance will not move it either
        if not (isinstance(answer, RpcError) and answer.is_revert)
    }


def asset_of(chain: EvmChain, token: EvmAsset) -> Asset:
    """A token of the settings as the service knows it."""
    return Asset(
        id=f"{chain.caip2}/erc20:{token.address}",
        chain_id=chain.caip2,
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        method="eip3009",
        domain_name=token.signing_name,
        domain_version=token.domain_version,
        network_name=chain.name,
        icon_url=token.icon_url,
        network_icon_url=chain.icon_url,
    )


def _probe(chain: EvmChain) -> settler.Pay:
    return settler.Pay(
        token=chain.settler,
        payer=NOBODY,
        value=3,
        valid_after=0,
        valid_before=0,
        dest=chain.treasury_account.rpartition(":")[2],
        fee_to=NOBODY,
        fee=1,
        ref=b"\x5a" * 32,
        signature=b"",
    )


def _settler_fault(chain: EvmChain, probe: settler.Pay, code: Any, nonce: Any) -> str | None:
    """Why the settlement contract cannot be used; it must hash a route as we do."""
    if not data(code):
        return f"{chain.name}: there is no contract at {chain.settler}"
    route = Route(
        chain_id=chain.chain_id,
        settler=chain.settler,
        token=probe.token,
        value=probe.value,
        dest=probe.dest,
        fee_to=probe.fee_to,
        fee=probe.fee,
        ref=probe.ref,
    )
    if _returned(nonce) != route.nonce():
        return f"{chain.name}: the contract at {chain.settler} is not Florin's settlement contract"
    return None


def _token_fault(chain: EvmChain, token: EvmAsset, answers: Sequence[Any]) -> str | None:
    """What differs between a token and its settings, as the end of a sentence."""
    decimals, name, version, separator = (_returned(answer) for answer in answers)
    if decimals is None or len(decimals) != abi.WORD:
        return "is no token"
    if int.from_bytes(decimals, "big") != token.decimals:
        return f"has {int.from_bytes(decimals, 'big')} decimals, not {token.decimals}"
    if _text(name) != token.signing_name:
        return f"is named {_text(name)!r}, not {token.signing_name!r}"
    # some tokens keep their version to themselves; the separator proves it anyway
    if version is not None and _text(version) != token.domain_version:
        return f"has version {_text(version)!r}, not {token.domain_version!r}"
    domain = Domain(token.signing_name, token.domain_version, chain.chain_id, token.address)
    if separator != domain.separator():
        return "signs for another domain than its name, version and chain give"
    return None


def _returned(answer: Any) -> bytes | None:
    """What a contract returned; None if it reverted or returned nothing."""
    if isinstance(answer, RpcError):
        if answer.is_revert:
            return None
        raise RailUnavailable(f"the node refused a call: {answer}")
    return data(answer) or None


def _text(returned: bytes | None) -> str | None:
    try:
        return None if returned is None else abi.text_of(returned)
    except ValueError:
        return None
