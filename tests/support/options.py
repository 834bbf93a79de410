"""Honest options of every kind, in the form of the server's own rails, for wallets under attack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from florin_server.chains.evm.route import Kind, Route
from florin_server.chains.evm.typed_data import sign_request
from florin_server.chains.solana import spl
from florin_server.rails.evm.paying.terms import NOBODY, PERMIT2, Terms, _approve
from florin_server.rails.solana.paying.message import compile_message, unsigned
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair

EVM: Final = "eip155:8453"
SOLANA: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
TOKEN: Final = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"  # USDC on Base
MINT: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"  # USDC on Solana
SETTLER, DEST, FEE_TO = ("0x" + one * 20 for one in ("51", "de", "fe"))
PRICE: Final = 12_500_000
FEE: Final = 100_000
RELAYER, RECEIVER, FEE_RECEIVER = (Keypair.from_seed(bytes([one] * 32)) for one in (5, 6, 7))

# what an option is paid by: kind of route and allowances, or None on Solana
KINDS: Final[dict[str, tuple[Kind, tuple[int, ...], str] | None]] = {
    "eip3009": (Kind.EIP3009, (), TOKEN),
    "permit2": (Kind.PERMIT2, (PRICE,), TOKEN),
    "permit2 allowed": (Kind.PERMIT2, (), TOKEN),
    "permit2 from zero": (Kind.PERMIT2, (0, PRICE), TOKEN),
    "direct": (Kind.DIRECT, (PRICE,), TOKEN),
    "coin": (Kind.DIRECT, (), NOBODY),
    "solana": None,
    "solana coin": None,
}

Json = dict[str, Any]


def honest_option(kind: str, accounts: dict[str, str], now: int) -> Json:
    """Return an option as JSON, with its actions; typed data is parsed, to be changed inside."""
    chosen = KINDS[kind]
    if chosen is None:
        coin = kind == "solana coin"
        asset = f"{SOLANA}/slip44:501" if coin else f"{SOLANA}/token:{MINT}"
        symbol, decimals = ("SOL", 9) if coin else ("USDC", 6)
        step = solana_step(solana_instructions(accounts[SOLANA], coin=coin))
        return _option(SOLANA, accounts[SOLANA], asset, (symbol, decimals), [step])
    route_kind, approvals, token = chosen
    route = Route(8453, SETTLER, route_kind, token, PRICE, now + 900, DEST, FEE_TO, FEE, b"\7" * 32)
    terms = Terms(route, route.nonce(), True, "USD Coin", "2", approvals)
    payer = accounts[EVM].lower()
    if route_kind is Kind.DIRECT:
        made = [(one.method, json.loads(one.params_json)) for one in terms.calls(payer)]
    else:
        signer, text = json.loads(sign_request(payer, terms.message(payer)))
        allow = [_approve(EVM, payer, token, PERMIT2, one) for one in approvals]
        made = [(one.method, json.loads(one.params_json)) for one in allow]
        made.append(("eth_signTypedData_v4", [signer, json.loads(text)]))
    steps = [{"chain_id": EVM, "method": method, "params": params} for method, params in made]
    coin = token == NOBODY
    asset = f"{EVM}/slip44:60" if coin else f"{EVM}/erc20:{token}"
    return _option(EVM, accounts[EVM], asset, ("ETH", 18) if coin else ("USDC", 6), steps)


def solana_instructions(payer: str, *, coin: bool = False) -> list[Instruction]:
    """Return what an honest transaction does."""
    budget = [set_compute_unit_limit(200_000), set_compute_unit_price(1_000)]
    shares = [(RECEIVER, PRICE - FEE), (FEE_RECEIVER, FEE)]
    if coin:
        own = spl.pubkey(payer)
        moves = [spl.transfer_coin(own, to.pubkey(), amount) for to, amount in shares]
        return [*budget, *moves, spl.memo("reference")]
    mint = spl.pubkey(MINT)
    opening = spl.create_associated(RELAYER.pubkey(), RECEIVER.pubkey(), mint, spl.TOKEN)
    moves = [transfer(payer, to, amount) for to, amount in shares]
    return [*budget, opening, *moves, spl.memo("reference")]


def transfer(payer: str, to: Keypair, amount: int, mint: str = MINT) -> Instruction:
    """Return the instruction that moves a token to where `to` holds it."""
    own, token = spl.pubkey(payer), spl.pubkey(mint)
    return spl.transfer_checked(
        spl.TOKEN,
        token,
        6,
        owner=own,
        source=spl.associated(own, token, spl.TOKEN),
        dest=spl.associated(to.pubkey(), token, spl.TOKEN),
        amount=amount,
    )


def solana_step(instructions: Sequence[Instruction], fee_payer: Keypair = RELAYER) -> Json:
    """Return the step that asks for a signature under a transaction."""
    message = compile_message(fee_payer.pubkey(), instructions, Hash.default())
    params = [{"transaction": unsigned(message)}]
    return {"chain_id": SOLANA, "method": "solana_signTransaction", "params": params}


def written(steps: Sequence[Json]) -> list[Json]:
    """Return steps as they go over the wire: parameters, and typed data in them, are JSON text."""
    return [
        {**one, "params": json.dumps(_texts(one["method"], one["params"]))}
        if isinstance(one, dict)
        else one
        for one in steps
    ]


def _texts(method: str, params: Any) -> Any:
    if method == "eth_signTypedData_v4" and isinstance(params, list) and len(params) > 1:
        return [params[0], json.dumps(params[1]), *params[2:]]
    return params


def _option(
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
