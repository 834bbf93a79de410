"""Honest options of every kind, as the server's own rails make them, for wallets under attack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from florin_client.wallet import FORWARDER
from florin_server.domain.caip import format_checksum_address
from florin_server.domain.chains.evm.route import ForwardRoute, RouteKind, SettlementRoute
from florin_server.domain.chains.evm.typed_data import format_sign_request
from florin_server.domain.chains.solana import spl
from florin_server.rails.evm.paying.terms import (
    PERMIT2,
    ZERO_ADDRESS,
    EvmOptionTerms,
    _build_approval,
)
from florin_server.rails.solana.paying.message import compile_message, encode_unsigned
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair

EVM: Final = "eip155:8453"
SOLANA: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
TOKEN: Final = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"  # USDC on Base
MINT: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"  # USDC on Solana
SETTLER, DEST, FEE_TO, HOME = ("0x" + item * 20 for item in ("51", "de", "fe", "c0"))
PRICE: Final = 12_500_000
FEE: Final = 100_000
RELAYER, RECEIVER, FEE_RECEIVER = (Keypair.from_seed(bytes([item] * 32)) for item in (5, 6, 7))

# by kind of option: kind of route and allowances, or None on Solana
KINDS: Final[dict[str, tuple[RouteKind, tuple[int, ...], str] | None]] = {
    "eip3009": (RouteKind.EIP3009, (), TOKEN),
    "permit2": (RouteKind.PERMIT2, (PRICE,), TOKEN),
    "permit2 allowed": (RouteKind.PERMIT2, (), TOKEN),
    "permit2 signed": (RouteKind.PERMIT2, (), TOKEN),
    "permit2 from zero": (RouteKind.PERMIT2, (0, PRICE), TOKEN),
    "direct": (RouteKind.DIRECT, (PRICE,), TOKEN),
    "coin": (RouteKind.DIRECT, (), ZERO_ADDRESS),
    "solana": None,
    "solana coin": None,
}

Json = dict[str, Any]


def make_honest_option(kind: str, accounts: dict[str, str], now: int) -> Json:
    """Return an option as JSON, with its actions; typed data is parsed, to be changed inside."""
    chosen = KINDS[kind]
    if chosen is None:
        coin = kind == "solana coin"
        asset = f"{SOLANA}/slip44:501" if coin else f"{SOLANA}/token:{MINT}"
        symbol, decimals = ("SOL", 9) if coin else ("USDC", 6)
        step = make_solana_step(make_solana_instructions(accounts[SOLANA], coin=coin))
        return _make_option(SOLANA, accounts[SOLANA], asset, (symbol, decimals), [step])
    route_kind, approvals, token = chosen
    route = SettlementRoute(
        8453, SETTLER, route_kind, token, PRICE, now + 900, DEST, FEE_TO, FEE, b"\7" * 32
    )
    permit = (3, "USD Coin", "2") if kind == "permit2 signed" else None
    terms = EvmOptionTerms(route, route.compute_nonce(), True, "USD Coin", "2", approvals, permit)
    payer = accounts[EVM].lower()
    if route_kind is RouteKind.DIRECT:
        created = [
            (action.method, json.loads(action.params_json)) for action in terms.build_calls(payer)
        ]
    else:
        messages = [terms.build_permit(payer), terms.build_message(payer)]
        requests = [
            json.loads(format_sign_request(payer, message))
            for message in messages
            if message is not None
        ]
        allow = [_build_approval(EVM, payer, token, PERMIT2, approval) for approval in approvals]
        created = [(action.method, json.loads(action.params_json)) for action in allow]
        created += [
            ("eth_signTypedData_v4", [signer, json.loads(text)]) for signer, text in requests
        ]
    steps = [{"chain_id": EVM, "method": method, "params": params} for method, params in created]
    coin = token == ZERO_ADDRESS
    asset = f"{EVM}/slip44:60" if coin else f"{EVM}/erc20:{token}"
    return _make_option(EVM, accounts[EVM], asset, ("ETH", 18) if coin else ("USDC", 6), steps)


def make_solana_instructions(payer: str, *, coin: bool = False) -> list[Instruction]:
    """Return the instructions of an honest transaction."""
    budget = [set_compute_unit_limit(200_000), set_compute_unit_price(1_000)]
    shares = [(RECEIVER, PRICE - FEE), (FEE_RECEIVER, FEE)]
    if coin:
        own = spl.parse_pubkey(payer)
        moves = [spl.transfer_coin(own, to.pubkey(), amount) for to, amount in shares]
        return [*budget, *moves, spl.create_memo("reference")]
    mint = spl.parse_pubkey(MINT)
    opening = spl.create_associated_account(RELAYER.pubkey(), RECEIVER.pubkey(), mint, spl.TOKEN)
    moves = [make_transfer(payer, to, amount) for to, amount in shares]
    return [*budget, opening, *moves, spl.create_memo("reference")]


def make_transfer(payer: str, to: Keypair, amount: int, mint: str = MINT) -> Instruction:
    """Return the instruction that moves a token to the token account of `to`."""
    own, token = spl.parse_pubkey(payer), spl.parse_pubkey(mint)
    return spl.transfer_checked(
        spl.TOKEN,
        token,
        6,
        owner=own,
        source=spl.derive_associated_address(own, token, spl.TOKEN),
        dest=spl.derive_associated_address(to.pubkey(), token, spl.TOKEN),
        amount=amount,
    )


def make_solana_step(instructions: Sequence[Instruction], fee_payer: Keypair = RELAYER) -> Json:
    """Return the step that asks for a signature under a transaction."""
    message = compile_message(fee_payer.pubkey(), instructions, Hash.default())
    params = [{"transaction": encode_unsigned(message)}]
    return {"chain_id": SOLANA, "method": "solana_signTransaction", "params": params}


def to_wire_steps(steps: Sequence[Json]) -> list[Json]:
    """Return steps in wire form: parameters, and typed data in them, are JSON text."""
    return [
        {**step, "params": json.dumps(_to_texts(step["method"], step["params"]))}
        if isinstance(step, dict)
        else step
        for step in steps
    ]


def _to_texts(method: str, params: Any) -> Any:
    if method == "eth_signTypedData_v4" and isinstance(params, list) and len(params) > 1:
        return [params[0], json.dumps(params[1]), *params[2:]]
    return params


def _make_option(
    chain: str, address: str, asset: str, display: tuple[str, int], steps: list[Json]
) -> Json:
    return {
        "id": "opt_1",
        "account": f"{chain}:{address}",
        "unit": f"caip19/{asset}",
        "value": str(PRICE),
        "symbol": display[0],
        "decimals": display[1],
        "steps": steps,
    }


def make_forward_route(now: int, **changes: Any) -> ForwardRoute:
    """Return the route of a payment to an address of its own."""
    route = ForwardRoute(
        chain_id=8453,
        forwarder=FORWARDER,
        token=TOKEN,
        value=PRICE,
        valid_before=now + 900,
        dest=DEST,
        fee_to=FEE_TO,
        fee=FEE,
        ref=b"\7" * 32,
        home=HOME,
    )
    return replace(route, **changes)


def make_pay_address(route: ForwardRoute, received: int = 0) -> Json:
    """Return the address of a route as REST's JSON."""
    name = "slip44:60" if route.token == ZERO_ADDRESS else f"erc20:{route.token}"
    asset = f"eip155:{route.chain_id}/{name}"
    return {
        "address": format_checksum_address(route.compute_address()),
        "asset": asset,
        "amount": {
            "unit": f"caip19/{asset}",
            "value": str(route.value),
            "display": {"assetSymbol": "USDC", "decimals": 6},
        },
        "uri": f"ethereum:{route.token}@{route.chain_id}",
        "expiresAt": str(route.valid_before),
        "route": {
            "forwarder": route.forwarder,
            "chainId": str(route.chain_id),
            "token": route.token,
            "value": str(route.value),
            "validBefore": str(route.valid_before),
            "dest": route.dest,
            "feeTo": route.fee_to,
            "fee": str(route.fee),
            "ref": "0x" + route.ref.hex(),
            "home": route.home,
        },
        "received": str(received),
        "missing": str(max(0, route.value - received)),
        "over": str(max(0, received - route.value)),
    }
