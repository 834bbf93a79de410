"""Inspection of a chain: what it really is, compared with the operator's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import RouteKind, SettlementRoute
from florin_server.domain.chains.evm.typed_data import (
    PERMIT2,
    X402_PROXY,
    Eip712Domain,
    build_permit2_domain,
)
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.gas_money import FEE_TOKEN_DECIMALS
from florin_server.rails.evm.paying import signing
from florin_server.rails.evm.paying.payable import DECIMALS, NONCES
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, PERMIT2_METHOD, ZERO_ADDRESS
from florin_server.rails.evm.reading import guards
from florin_server.rails.evm.reading.guards import TokenGuard, TokenGuards
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_quantity,
    parse_returned,
)
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings, EvmCoinSettings
from florin_server.rails.evm.setup.deployment import TRANSIENT_CODE
from florin_server.rails.networks.registry import TokenClaim, find_contradiction
from florin_server.rails.types import Asset

NAME = abi.encode_selector("name()")
VERSION = abi.encode_selector("version()")
DOMAIN_SEPARATOR = abi.encode_selector("DOMAIN_SEPARATOR()")
# a settlement of no payments, which only a contract with Permit2 support answers
_EMPTY_PERMIT2_SETTLE = (
    settler.SETTLE_PERMIT2 + abi.encode_uint256(abi.WORD) + abi.encode_uint256(0)
)
_ANY_NONCE = NONCES + abi.encode_address(ZERO_ADDRESS)
_TOKEN_CALLS = (DECIMALS, NAME, VERSION, DOMAIN_SEPARATOR)


@dataclass(frozen=True, slots=True)
class EvmInspection:
    """The assets that can be offered, by CAIP-19, and a sentence for each other problem.

    `guards` are the queries that those tokens answer about blocked accounts. `has_passkeys` says
    whether the chain checks passkey signatures itself, `has_x402_proxy` whether payments by x402
    can use Permit2.
    """

    assets: Mapping[str, Asset]
    problems: tuple[str, ...]
    guards: TokenGuards = field(default_factory=dict)
    has_passkeys: bool = False
    has_x402_proxy: bool = False


async def inspect_chain(node: EvmNode, chain: EvmChainSettings) -> EvmInspection:
    """Compare chain, settlement contract and tokens with the settings; one batched read."""
    route_nonce = settler.encode_route_nonce(RouteKind.DIRECT, _build_probe(chain))
    calls: list[RpcCall] = [
        ("eth_chainId", ()),
        signing.build_passkey_call(),
        ("eth_getCode", (chain.settler, LATEST)),
        build_call(chain.settler, route_nonce),
        *(build_call(former, route_nonce) for former in chain.former_settlers),
        *(call for token in chain.assets for call in _build_token_calls(chain, token)),
    ]
    permit2_start = len(calls)
    calls += _build_permit2_calls(chain)
    chain_start = len(calls)
    calls += _build_chain_calls(chain)
    proxy_at = len(calls)
    calls.append(("eth_getCode", (X402_PROXY, LATEST)))
    if chain.coin is not None:
        is_paid = settler.IS_PAID + abi.encode_address(ZERO_ADDRESS) + bytes(abi.WORD)
        calls.append(build_call(chain.settler, is_paid))
    answers = await node.batch(calls)
    node_chain_id = parse_quantity(answers[0])
    if node_chain_id != chain.chain_id:
        return EvmInspection(
            {}, (f"{chain.name}: the node serves chain {node_chain_id}, not {chain.chain_id}",)
        )
    tokens_start = 4 + len(chain.former_settlers)
    fault = _find_settler_problem(chain, answers[2], answers[3:tokens_start])
    if (
        fault := fault or _find_chain_problem(chain, *answers[chain_start : chain_start + 2])
    ) is not None:
        return EvmInspection({}, (fault,))
    problems = []
    assets = {}
    guards_by_asset: dict[str, TokenGuard] = {}
    calls_per_token = len(_TOKEN_CALLS) + guards.QUESTIONS
    for index, token in enumerate(chain.assets):
        start = tokens_start + index * calls_per_token
        token_answers = answers[start : start + len(_TOKEN_CALLS)]
        problem = _find_token_problem(
            chain, token, token_answers, answers[permit2_start:chain_start]
        )
        guard, paused, refused = guards.parse_guard(
            answers[start + len(_TOKEN_CALLS) : start + calls_per_token]
        )
        if problem is None and refused:
            problem = f"refuses the settlement contract at {chain.settler}"
        if problem is None:
            asset = build_token_asset(chain, token)
            assets[asset.id], guards_by_asset[asset.id] = asset, guard
        if problem is None and paused:
            problem = "is paused, so it is not offered"
        if problem is not None:
            problems.append(f"{chain.name}: {token.symbol} at {token.address} {problem}")
    if chain.coin is not None:
        if parse_returned(answers[-1]) == abi.encode_uint256(0):
            coin = build_coin_asset(chain, chain.coin)
            assets[coin.id] = coin
        else:
            problems.append(
                f"{chain.name}: the settlement contract at {chain.settler} does not accept "
                f"{chain.coin.symbol}"
            )
    passkeys = signing.parse_passkey_support(answers[1])
    code = answers[proxy_at]
    has_proxy = not isinstance(code, RpcError) and bool(parse_data(code))
    return EvmInspection(assets, tuple(problems), guards_by_asset, passkeys, has_proxy)


def _build_permit2_calls(chain: EvmChainSettings) -> list[RpcCall]:
    """Build the calls about Permit2, and about the nonces of tokens with signed approvals."""
    if all(token.method != PERMIT2_METHOD for token in chain.assets):
        return []
    return [
        build_call(PERMIT2, DOMAIN_SEPARATOR),
        build_call(chain.settler, _EMPTY_PERMIT2_SETTLE),
        *(build_call(address, _ANY_NONCE) for address in _list_permit_tokens(chain)),
    ]


def _list_permit_tokens(chain: EvmChainSettings) -> list[str]:
    return [token.address for token in chain.assets if token.approve_by_signature]


def _build_chain_calls(chain: EvmChainSettings) -> list[RpcCall]:
    """Build the calls for transient storage and for the decimals of the fee token."""
    fee_token = chain.fee_token or chain.settler
    return [("eth_call", ({"data": TRANSIENT_CODE}, LATEST)), build_call(fee_token, DECIMALS)]


def _find_chain_problem(chain: EvmChainSettings, transient: Any, decimals: Any) -> str | None:
    """Return why a chain cannot settle with any contract; None if it can."""
    if isinstance(transient, RpcError) and "opcode" in transient.message.lower():
        return (
            f"{chain.name}: the chain lacks transient storage (EIP-1153), which the settlement "
            "contract needs"
        )
    if chain.fee_token is not None and parse_returned(decimals) != abi.encode_uint256(
        FEE_TOKEN_DECIMALS
    ):
        return f"{chain.name}: {chain.fee_token} must have {FEE_TOKEN_DECIMALS} decimals"
    return None


def _build_token_calls(chain: EvmChainSettings, token: EvmAssetSettings) -> list[RpcCall]:
    calls = [build_call(token.address, selector) for selector in _TOKEN_CALLS]
    return [*calls, *guards.build_guard_calls(token.address, chain.settler)]


def build_token_asset(chain: EvmChainSettings, token: EvmAssetSettings) -> Asset:
    """Return a token of the settings as an asset."""
    domain = _build_domain(chain, token)
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
        approval_domain=(
            (token.signing_name, token.domain_version) if token.approve_by_signature else None
        ),
        network_name=chain.name,
        icon_url=token.icon_url,
        network_icon_url=chain.icon_url,
    )


def build_coin_asset(chain: EvmChainSettings, coin: EvmCoinSettings) -> Asset:
    """Return a chain's native coin as an asset."""
    return Asset(
        id=chain.coin_asset,
        chain_id=chain.caip2,
        address=ZERO_ADDRESS,
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


def _build_probe(chain: EvmChainSettings) -> settler.PayArguments:
    return settler.PayArguments(
        token=chain.settler,
        payer=ZERO_ADDRESS,
        value=3,
        valid_after=0,
        valid_before=5,
        dest=chain.treasury_account.rpartition(":")[2],
        fee_to=ZERO_ADDRESS,
        fee=1,
        ref=b"\x5a" * 32,
        gas=7,
        signature=b"",
    )


async def find_settler_fault(node: EvmNode, chain: EvmChainSettings) -> str | None:
    """Return why a chain's configured settlement contracts are unusable; None if they are usable.

    Raise the errors of `EvmNode.batch`.
    """
    route_nonce = settler.encode_route_nonce(RouteKind.DIRECT, _build_probe(chain))
    code, *nonces = await node.batch(
        [
            ("eth_getCode", (chain.settler, LATEST)),
            build_call(chain.settler, route_nonce),
            *(build_call(former, route_nonce) for former in chain.former_settlers),
        ]
    )
    return _find_settler_problem(chain, code, nonces)


def _find_settler_problem(chain: EvmChainSettings, code: Any, nonces: Sequence[Any]) -> str | None:
    """Return why a settlement contract is unusable; each must hash a route as we do.

    Payments through a contract of another version would not be seen.
    """
    if not parse_data(code):
        return f"{chain.name}: no contract exists at {chain.settler}"
    probe = _build_probe(chain)
    for address, nonce in zip((chain.settler, *chain.former_settlers), nonces, strict=True):
        route = SettlementRoute(
            chain_id=chain.chain_id,
            settler=address,
            kind=RouteKind.DIRECT,
            token=probe.token,
            value=probe.value,
            valid_before=probe.valid_before,
            dest=probe.dest,
            fee_to=probe.fee_to,
            fee=probe.fee,
            ref=probe.ref,
        )
        if parse_returned(nonce) != route.compute_nonce():
            return (
                f"{chain.name}: the contract at {address} is not Florin's settlement contract,"
                " or not that of this version"
            )
    return None


def _find_token_problem(
    chain: EvmChainSettings,
    token: EvmAssetSettings,
    answers: Sequence[Any],
    permit2_answers: Sequence[Any],
) -> str | None:
    """Return why a token cannot be accepted, as the end of a sentence."""
    by_signature = token.method != PERMIT2_METHOD
    claim = TokenClaim(
        symbol=token.symbol,
        address=token.address,
        decimals=token.decimals,
        peg=token.peg,
        domain=(token.signing_name, token.domain_version) if by_signature else None,
    )
    if (contradiction := find_contradiction(chain.caip2, claim)) is not None:
        return contradiction
    permit2_answers, nonces = permit2_answers[:2], permit2_answers[2:]
    if token.approve_by_signature:
        nonce = nonces[_list_permit_tokens(chain).index(token.address)]
        if (permit_problem := _find_permit_problem(chain, token, answers, nonce)) is not None:
            return permit_problem
    if not by_signature:
        decimals_problem = _find_decimals_problem(token, answers[0])
        return decimals_problem or _find_permit2_problem(chain, *permit2_answers)
    return _find_eip3009_problem(chain, token, answers)


def _find_eip3009_problem(
    chain: EvmChainSettings, token: EvmAssetSettings, answers: Sequence[Any]
) -> str | None:
    """Return how a token differs from its settings, as the end of a sentence."""
    if (problem := _find_decimals_problem(token, answers[0])) is not None:
        return problem
    name, version, separator = (parse_returned(answer) for answer in answers[1:])
    if _decode_text(name) != token.signing_name:
        return f"is named {_decode_text(name)!r}, not {token.signing_name!r}"
    # some tokens do not expose their version; the separator proves it anyway
    if version is not None and _decode_text(version) != token.domain_version:
        return f"has version {_decode_text(version)!r}, not {token.domain_version!r}"
    if separator != _build_own_domain(chain, token).compute_separator():
        return "signs for another domain than its name, version and chain give"
    return None


def _find_permit_problem(
    chain: EvmChainSettings, token: EvmAssetSettings, answers: Sequence[Any], nonce: Any
) -> str | None:
    """Return why a token takes no signed approvals (EIP-2612), as the end of a sentence.

    Contracts that accept every call exist, so it has to know its domain and count nonces.
    """
    if (problem := _find_eip3009_problem(chain, token, answers)) is not None:
        return problem
    returned = parse_returned(nonce)
    if returned is None or len(returned) != abi.WORD:
        return "takes no approvals by signature (EIP-2612)"
    return None


def _find_decimals_problem(token: EvmAssetSettings, answer: Any) -> str | None:
    """Return how a token differs from its settings in its decimals; names are not compared."""
    decimals = parse_returned(answer)
    if decimals is None or len(decimals) != abi.WORD:
        return "is not a token"
    if int.from_bytes(decimals, "big") != token.decimals:
        return f"has {int.from_bytes(decimals, 'big')} decimals, not {token.decimals}"
    return None


def _find_permit2_problem(
    chain: EvmChainSettings, separator: Any, empty_settlement: Any
) -> str | None:
    """Return why Permit2 cannot pay with a token, as the end of a sentence."""
    if parse_returned(separator) != build_permit2_domain(chain.chain_id).compute_separator():
        return f"needs Permit2, which is not at {PERMIT2} on this chain"
    if parse_returned(empty_settlement) != abi.encode_uint256(0):
        return f"needs Permit2, which the settlement contract at {chain.settler} does not know"
    return None


def _build_domain(chain: EvmChainSettings, token: EvmAssetSettings) -> Eip712Domain:
    """Return the EIP-712 domain of signatures that pay with a token."""
    if token.method == PERMIT2_METHOD:
        return build_permit2_domain(chain.chain_id)
    return _build_own_domain(chain, token)


def _build_own_domain(chain: EvmChainSettings, token: EvmAssetSettings) -> Eip712Domain:
    """Return the EIP-712 domain of a token's own signatures."""
    return Eip712Domain(token.signing_name, token.domain_version, chain.chain_id, token.address)


def _decode_text(returned: bytes | None) -> str | None:
    try:
        return None if returned is None else abi.decode_string(returned)
    except ValueError:
        return None
