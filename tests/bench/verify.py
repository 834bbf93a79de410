"""Measure verification of signed payments as in a confirm, on the embedded chain and on anvil.

Limits measured in the same run: the signature's mathematics in one thread, and the dry runs alone,
sent to the node in payloads as large as the rail's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvloop
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.typed_data import get_digest
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.connection.coalesce import LIMIT
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient, RpcCall
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.outputs import parse_signature
from florin_server.rails.evm.paying.terms import EvmOptionTerms, build_proof, to_address
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.node import LATEST, build_call
from florin_server.rails.evm.sending.fees import KEY_GAS, compute_dry_run_gas
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.bench.node import CHAIN_ID, Node, nodes
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.evm_harness import (
    FEES,
    MERCHANT,
    PRICE,
    make_buyer,
    make_chain_settings,
    make_payment,
    make_settlement_item,
    sign_option,
)

COUNT, ALONE, CONCURRENCY, ROUNDS = sized((400, 100, 100, 3), (3, 2, 2, 1))
# the simulation and read strategies that a rail detects: on the embedded chain, and on others
_WAYS = (("alone", "batch"), ("together", "auto"))
RELAYER = EvmSigner(b"\x1f" * 32)


@dataclass(frozen=True, slots=True)
class Pace:
    """Verifications a second, and this process's processor time for each."""

    rate: float
    cpu_ms: float


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    figures = []
    for name, item in nodes():
        with item as chain:
            figures += uvloop.run(_measure(name, chain))
    return figures


async def _measure(name: str, chain: Node) -> list[Figure]:
    async with opened(name, chain, COUNT) as (rail, items):
        await together(rail, items)  # warm-up
        request = rail.rpc.call_count, rail.rpc.request_count
        many = _best([await together(rail, items) for _ in range(ROUNDS)])
        calls, requests = rail.rpc.call_count - request[0], rail.rpc.request_count - request[1]
        single = _best([await alone(rail, items[:ALONE]) for _ in range(ROUNDS)])
        bare_calls = max([await _dry_runs(chain, items) for _ in range(ROUNDS)])
    crypto = max(_crypto(items) for _ in range(ROUNDS))
    created = COUNT * ROUNDS
    return [
        Figure(
            f"verify{name}_per_s",
            many.rate,
            "/s",
            f"{CONCURRENCY} at once, tried {_WAYS[bool(name)][0]}; {many.cpu_ms:.2f} ms CPU each, "
            f"that is {1e3 / many.cpu_ms:,.0f}/s on a core; crypto alone {crypto:,.0f}/s; "
            f"best of {ROUNDS} rounds",
        ),
        Figure(
            f"verify{name}_vs_chain",
            many.rate / bare_calls,
            "×",
            f"the node alone answers {bare_calls:,.0f} single dry runs/s, {LIMIT} in a payload",
            peer="chain alone",
        ),
        Figure(
            f"verify{name}_rpc_calls",
            calls / created,
            "calls",
            f"for each verification, in {requests / created:.2f} requests",
        ),
        Figure(
            f"verify{name}_alone_per_s",
            single.rate,
            "/s",
            f"one after the other; {single.cpu_ms:.2f} ms CPU each",
        ),
    ]


@asynccontextmanager
async def opened(
    name: str, chain: Node, count: int
) -> AsyncIterator[tuple[EvmRail, list[SettlementItem]]]:
    """Open a rail on a chain as the service does, with as many signed payments."""
    chain.fill(RELAYER.address)
    chain.fund([make_buyer(30_000 + number).address for number in range(count)])
    trials, reads = _WAYS[bool(name)]
    chosen = make_chain_settings(
        chain_id=CHAIN_ID, rpc_url=chain.direct, faucet=False, trials=trials, reads=reads
    )
    rail = EvmRail(chosen, RELAYER, HttpTransport(chain.direct))
    await rail.start()
    try:
        yield rail, [sold(rail, number) for number in range(count)]
    finally:
        await rail.close()


def sold(rail: EvmRail, number: int) -> SettlementItem:
    """Create a payment with its option and the buyer's signature."""
    wallet, payment = make_buyer(30_000 + number), make_payment(number, ttl_s=10**9)
    token = next(iter(rail.assets.values()))
    payer = f"{rail.chain_id}:{wallet.address.lower()}"
    split = Split(f"{rail.chain_id}:{MERCHANT}", f"{rail.chain_id}:{FEES}", 0, settled=True)
    option = rail.offers.build_option(
        OptionOffer(payment, payer, PayableAsset(payer, token.id), token, PRICE, split, 0)
    )
    return make_settlement_item(payment, option, sign_option(wallet, option))


async def together(rail: EvmRail, items: Sequence[SettlementItem]) -> Pace:
    """Verify all, many at once."""
    _forget()
    upcoming = iter(items)

    async def work() -> None:
        for item in upcoming:
            await rail.verifier.verify(item.option, (), item.confirmation.outputs)

    cpu_s, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return _pace(len(items), cpu_s, started)


def _forget() -> None:
    """Clear the caches: buyers sign once, but here the same signatures repeat."""
    build_proof.cache_clear()
    get_digest.cache_clear()


async def alone(rail: EvmRail, items: Sequence[SettlementItem]) -> Pace:
    """Verify one after another."""
    _forget()
    cpu_s, started = time.process_time(), time.perf_counter()
    for item in items:
        await rail.verifier.verify(item.option, (), item.confirmation.outputs)
    return _pace(len(items), cpu_s, started)


def _pace(count: int, cpu_s: float, started: float) -> Pace:
    seconds, used_s = time.perf_counter() - started, time.process_time() - cpu_s
    return Pace(count / seconds, used_s / count * 1e3)


def _best(paces: Sequence[Pace]) -> Pace:
    return max(paces, key=lambda pace: pace.rate)


async def _dry_runs(chain: Node, items: Sequence[SettlementItem]) -> float:
    """Make the calls of verifications without interpreting their results."""
    rpc = JsonRpcClient(HttpTransport(chain.direct))
    calls: list[RpcCall] = []
    for item in items:
        terms, payer = EvmOptionTerms.from_option(item.option), to_address(item.option.payer)
        signature = parse_signature(item.option, item.confirmation.outputs)
        data = settler.encode_settle_one(terms.build_pay_arguments(payer, signature))
        gas = compute_dry_run_gas(data, KEY_GAS)
        calls.append(("eth_getCode", (payer, LATEST)))
        calls.append(build_call(DEVNET.settler, data, sender=RELAYER.address, gas=gas))
    payloads = [calls[at : at + 2 * LIMIT] for at in range(0, len(calls), 2 * LIMIT)]
    started = time.perf_counter()
    for payload in payloads:
        await rpc.batch(payload)
    rate = len(items) / (time.perf_counter() - started)
    await rpc.close()
    return rate


def _crypto(items: Sequence[SettlementItem]) -> float:
    """Hash what was signed, and recover the signers."""
    _forget()
    started = time.perf_counter()
    for item in items:
        terms, payer = EvmOptionTerms.from_option(item.option), to_address(item.option.payer)
        signature = parse_signature(item.option, item.confirmation.outputs)
        if not build_proof(
            get_digest(terms.build_message(payer)), payer, signature
        ).is_key_signature:
            raise RuntimeError("a signature is not its buyer's")
    return len(items) / (time.perf_counter() - started)
