"""Measure watching 5,000 open addresses on a chain of fast blocks: calls, and processor time.

The embedded chain makes blocks of other people's transfers five times a second by its own clock.
Ratios compare with 500 addresses in the same run, so that the machine's speed does not count.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import ForwardRoute

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.evm_harness import EvmChainHarness, make_buyer, open_lab
from tests.support.payment_addresses import (
    CHAIN_CHANGES,
    encode_transfer,
    fund_sender,
    make_route,
)

ROUNDS, LOOKS, FEW, MANY = sized((5, 20, 500, 5_000), (1, 1, 5, 50))
# blocks between two looks, a second apart
BLOCKS = 5
_COIN = "0x" + "00" * 20
_STRANGER = make_buyer(91)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    lab = await open_lab(**CHAIN_CHANGES, reads="deployless")
    try:
        await fund_sender(lab, _STRANGER)
        tokens = [make_route(number) for number in range(1, MANY + 1)]
        coins = [make_route(number, _COIN) for number in range(1, MANY + 1)]
        few, many = [], []
        calls: dict[str, float] = {}
        for _ in range(ROUNDS):
            few.append(await _look(lab, tokens[:FEW], calls, "few"))
            many.append(await _look(lab, tokens, calls, "many"))
        await _look(lab, coins, calls, "coin", with_coin=True)
    finally:
        await lab.rail.close()
        await lab.chain.close()
    ratio = median(many) / median(few)
    note = f"{MANY:,} addresses, {BLOCKS} blocks a look, {{}} node calls a look"
    return [
        Figure("addresses_calls", calls["many"], "calls", note.format(round(calls["many"]))),
        Figure(
            "addresses_look_ms",
            median(many) * 1e3,
            "ms",
            f"processor time of a look at {MANY:,} addresses; one look a second",
            rounds=tuple(used * 1e3 for used in many),
        ),
        Figure(
            "addresses_many_vs_few",
            ratio,
            "×",
            f"processor time of {MANY:,} addresses, compared with {FEW:,}",
            peer="the same with fewer addresses",
        ),
        Figure(
            "addresses_coin_calls_vs_token",
            calls["coin"] / calls["many"],
            "×",
            f"node calls if all pay in coin; {note.format(round(calls['coin']))}",
            peer="the same with tokens",
        ),
    ]


async def _look(
    lab: EvmChainHarness,
    routes: list[ForwardRoute],
    calls: dict[str, float],
    name: str,
    *,
    with_coin: bool = False,
) -> float:
    """Return the seconds of the reader's processor time for a look, without the chain's."""
    addresses = [route.compute_address() for route in routes]
    deposits = lab.rail.deposits
    used_s = 0.0
    counted = 0
    for _ in range(LOOKS):
        head = (await lab.rail.observer.get_head()).number
        for _ in range(BLOCKS):
            data = encode_transfer(addresses[0], 1)
            await lab.send(key=bytes(_STRANGER.key), to=DEVNET.token.address, data=data)
        lab.node.methods.clear()
        chain_s = _ChainTime(lab)
        before = time.process_time()
        activity = await deposits.read_activity(addresses, head + 1)
        if with_coin:
            await deposits.find_coin_deposits(dict.fromkeys(addresses, 0), activity)
        used_s += time.process_time() - before - chain_s.stop()
        counted += len(lab.node.methods)
        assert len(activity.deposits) == BLOCKS
    calls[name] = counted / LOOKS
    return used_s / LOOKS


class _ChainTime:
    """The processor time of the chain in this process, which a real node would take elsewhere."""

    def __init__(self, lab: EvmChainHarness) -> None:
        self._node = lab.node
        self._send = lab.node.send
        self._used_s = 0.0
        self._node.send = self._timed  # type: ignore[method-assign]

    async def _timed(self, payload: bytes) -> bytes:
        before = time.process_time()
        answer = await self._send(payload)
        self._used_s += time.process_time() - before
        return answer

    def stop(self) -> float:
        """Return the seconds since the start, and stop counting."""
        self._node.send = self._send  # type: ignore[method-assign]
        return self._used_s
