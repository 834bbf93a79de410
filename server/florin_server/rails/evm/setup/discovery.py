"""What a chain really is, compared with what the operator said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from florin_server.chains.evm import abi
from florin_server.chains.evm.route import Kind, Route
from florin_server.chains.evm.typed_data import PERMIT2, Domain, permit2_domain
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.gas_money import FEE_TOKEN_DECIMALS
from florin_server.rails.evm.paying import signing
from florin_server.rails.evm.paying.payable import DECIMALS
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, NOBODY, PERMIT2_METHOD
from florin_server.rails.evm.reading import guards
from florin_server.rails.evm.reading.guards import Guard, Guards
from florin_server.rails.evm.reading.node import LATEST, Node, call_to, data, quantity, returned
from florin_server.rails.evm.settings import EvmAsset, EvmChain, EvmCoin
from florin_server.rails.networks.registry import Claim, contradiction
from florin_server.rails.types import Asset

NAME = abi.selector("name()")
VERSION = abi.selector("version()")
DOMAIN_SEPARATOR = abi.selector("DOMAIN_SEPARATOR()")
# a settlement of no payments, which only a contract that knows Permit2 answers
_NOTHING_BY_PERMIT2 = settler.SETTLE_PERMIT2 + abi.number(abi.WORD) + abi.number(0)
# writes a word that lasts as long as the transaction, as the settlement contract does
_TRANSIENT = "0x600160005d00"
_TOKEN_CALLS = (DECIMALS, NAME, VERSION, DOMAIN_SEPARATOR)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The assets that may be offered, by CAIP-19, and sentences about all that may not.

    `guards` are what those tokens answer about whom they refuse; `passkeys` tells that the chain
    checks the signatures of passkeys by itself.
    """

    assets: Mapping[str, Asset]
    problems: tuple[str, ...]
    guards: Guards = field(default_factory=dict)
    passkeys: bool = False


async def inspect(node: Node, chain: EvmChain) -> Inspection:
    """Compares chain, settlement contract and tokens with the settings; one batched read."""
    asked = settler.route_nonce(Kind.DIRECT, _probe(chain))
    calls: list[Call] = [
        ("eth_chainId", ()),
        signing.ask_passkeys(),
        ("eth_getCode", (chain.settler, LATEST)),
        call_to(chain.settler, asked),
        *(call_to(former, asked) for former in chain.former_settlers),
        *(call for token in chain.assets for call in _token_calls(chain, token)),
    ]
    if any(token.method == PERMIT2_METHOD for token in chain.assets):
        calls += [call_to(PERMIT2, DOMAIN_SEPARATOR), call_to(chain.settler, _NOTHING_BY_PERMIT2)]
    place = len(calls)
    calls += _ask_machine(chain)
    if chain.coin is not None:
        is_paid = settler.IS_PAID + abi.address(NOBODY) + bytes(abi.WORD)
        calls.append(call_to(chain.settler, is_paid))
    answers = await node.batch(calls)
    number = quantity(answers[0])
    if number != chain.chain_id:
        return Inspection(
            {}, (f"{chain.name}: the node serves chain {number}, not {chain.chain_id}",)
        )
    before = 4 + len(chain.former_settlers)
    fault = _settler_fault(chain, answers[2], answers[3:before])
    if (fault := fault or _machine_fault(chain, *answers[place : place + 2])) is not None:
        return Inspection({}, (fault,))
    problems = []
    assets = {}
    guarded: dict[str, Guard] = {}
    each = len(_TOKEN_CALLS) + guards.QUESTIONS
    behind = before + len(chain.assets) * each
    for index, token in enumerate(chain.assets):
        first = before + index * each
        of_token = answers[first : first + len(_TOKEN_CALLS)]
        difference = _difference(chain, token, of_token, answers[behind : behind + 2])
        guard, paused, refused = guards.read(answers[first + len(_TOKEN_CALLS) : first + each])
        if difference is None and refused:
            difference = f"refuses the settlement contract at {chain.settler}"
        if difference is None:
            asset = asset_of(chain, token)
            assets[asset.id], guarded[asset.id] = asset, guard
        if difference is None and paused:
            difference = "is paused, and not offered until it is not"
        if difference is not None:
            problems.append(f"{chain.name}: {token.symbol} at {token.address} {difference}")
    if chain.coin is not None:
        if returned(answers[-1]) == abi.number(0):
            coin = coin_of(chain, chain.coin)
            assets[coin.id] = coin
        else:
            problems.append(
                f"{chain.name}: the settlement contract at {chain.settler} does not take "
                f"{chain.coin.symbol}"
            )
    passkeys = signing.checks_passkeys(answers[1])
    return Inspection(assets, tuple(problems), guarded, passkeys)


def _ask_machine(chain: EvmChain) -> list[Call]:
    """Ask whether the chain runs the settlement contract, and what its fee token is."""
    fee_token = chain.fee_token or chain.settler
    return [("eth_call", ({"data": _TRANSIENT}, LATEST)), call_to(fee_token, DECIMALS)]


def _machine_fault(chain: EvmChain, transient: Any, decimals: Any) -> str | None:
    """Return why nothing can be settled on a chain, whatever its contracts; None if it can."""
    if isinstance(transient, RpcError) and "opcode" in transient.message.lower():
        return (
            f"{chain.name}: the chain lacks transient storage (EIP-1153), which the settlement "
            "contract needs"
        )
    if chain.fee_token is not None and returned(decimals) != abi.number(FEE_TOKEN_DECIMALS):
        return f"{chain.name}: {chain.fee_token} is no fee token of {FEE_TOKEN_DECIMALS} decimals"
    return None


def _token_calls(chain: EvmChain, token: EvmAsset) -> list[Call]:
    asked = [call_to(token.address, ask) for ask in _TOKEN_CALLS]
    return [*asked, *guards.asks(token.address, chain.settler)]


def asset_of(chain: EvmChain, token: EvmAsset) -> Asset:
    """A token of the settings as the service knows it."""
    domain = _domain(chain, token)
    return Asset(
        id=f"{chain.caip2}/erc20:{token.address}",
        chain_id=chain.caip2,
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        method=token.method,
        domain_name=domain.name,
        domain_version=domain.version or "",
        approve_from_zero=token.approve_from_zero,
        network_name=chain.name,
        icon_url=token.icon_url,
        network_icon_url=chain.icon_url,
    )


def coin_of(chain: EvmChain, coin: EvmCoin) -> Asset:
    """A chain's own coin as the service knows it."""
    return Asset(
        id=chain.coin_asset,
        chain_id=chain.caip2,
        address=NOBODY,
        name=coin.name,
        symbol=coin.symbol,
        decimals=18,
        peg=None,
        method=DIRECT_METHOD,
        domain_name="",
        domain_version="",
        network_name=chain.name,
        icon_url=coin.icon_url,
        network_icon_url=chain.icon_url,
    )


def _probe(chain: EvmChain) -> settler.Pay:
    return settler.Pay(
        token=chain.settler,
        payer=NOBODY,
        value=3,
        valid_after=0,
        valid_before=5,
        dest=chain.treasury_account.rpartition(":")[2],
        fee_to=NOBODY,
        fee=1,
        ref=b"\x5a" * 32,
        gas=7,
        signature=b"",
    )


async def find_settler_fault(node: Node, chain: EvmChain) -> str | None:
    """Return why a chain's settlement contracts cannot be used, as they are set; None if they can.

    Errors as those of `Node.batch`.
    """
    asked = settler.route_nonce(Kind.DIRECT, _probe(chain))
    code, *nonces = await node.batch(
        [
            ("eth_getCode", (chain.settler, LATEST)),
            call_to(chain.settler, asked),
            *(call_to(former, asked) for former in chain.former_settlers),
        ]
    )
    return _settler_fault(chain, code, nonces)


def _settler_fault(chain: EvmChain, code: Any, nonces: Sequence[Any]) -> str | None:
    """Why a settlement contract cannot be used; each must hash a route as we do.

    What was paid through one of another version is not seen, as if it had not been paid.
    """
    if not data(code):
        return f"{chain.name}: there is no contract at {chain.settler}"
    probe = _probe(chain)
    for address, nonce in zip((chain.settler, *chain.former_settlers), nonces, strict=True):
        route = Route(
            chain_id=chain.chain_id,
            settler=address,
            kind=Kind.DIRECT,
            token=probe.token,
            value=probe.value,
            valid_before=probe.valid_before,
            dest=probe.dest,
            fee_to=probe.fee_to,
            fee=probe.fee,
            ref=probe.ref,
        )
        if returned(nonce) != route.nonce():
            return (
                f"{chain.name}: the contract at {address} is not Florin's settlement contract,"
                " or not that of this version"
            )
    return None


def _difference(
    chain: EvmChain, token: EvmAsset, answers: Sequence[Any], of_permit2: Sequence[Any]
) -> str | None:
    """Why a token cannot be taken, as the end of a sentence."""
    by_signature = token.method != PERMIT2_METHOD
    claim = Claim(
        symbol=token.symbol,
        address=token.address,
        decimals=token.decimals,
        peg=token.peg,
        domain=(token.signing_name, token.domain_version) if by_signature else None,
    )
    if (known := contradiction(chain.caip2, claim)) is not None:
        return known
    if not by_signature:
        plain = _plain_token_fault(token, answers[0])
        return plain or _permit2_fault(chain, *of_permit2)
    return _token_fault(chain, token, answers)


def _token_fault(chain: EvmChain, token: EvmAsset, answers: Sequence[Any]) -> str | None:
    """What differs between a token and its settings, as the end of a sentence."""
    if (difference := _plain_token_fault(token, answers[0])) is not None:
        return difference
    name, version, separator = (returned(answer) for answer in answers[1:])
    if _text(name) != token.signing_name:
        return f"is named {_text(name)!r}, not {token.signing_name!r}"
    # some tokens keep their version to themselves; the separator proves it anyway
    if version is not None and _text(version) != token.domain_version:
        return f"has version {_text(version)!r}, not {token.domain_version!r}"
    if separator != _domain(chain, token).separator():
        return "signs for another domain than its name, version and chain give"
    return None


def _plain_token_fault(token: EvmAsset, answer: Any) -> str | None:
    """The same for a token that is only moved: its name is a matter of taste."""
    decimals = returned(answer)
    if decimals is None or len(decimals) != abi.WORD:
        return "is no token"
    if int.from_bytes(decimals, "big") != token.decimals:
        return f"has {int.from_bytes(decimals, 'big')} decimals, not {token.decimals}"
    return None


def _permit2_fault(chain: EvmChain, separator: Any, settled: Any) -> str | None:
    """Why a token cannot be paid with through Permit2, as the end of a sentence."""
    if returned(separator) != permit2_domain(chain.chain_id).separator():
        return f"needs Permit2, which is not at {PERMIT2} on this chain"
    if returned(settled) != abi.number(0):
        return f"needs Permit2, which the settlement contract at {chain.settler} does not know"
    return None


def _domain(chain: EvmChain, token: EvmAsset) -> Domain:
    """What the signatures that pay with a token are for."""
    if token.method == PERMIT2_METHOD:
        return permit2_domain(chain.chain_id)
    return Domain(token.signing_name, token.domain_version, chain.chain_id, token.address)


def _text(said: bytes | None) -> str | None:
    try:
        return None if said is None else abi.text_of(said)
    except ValueError:
        return None
