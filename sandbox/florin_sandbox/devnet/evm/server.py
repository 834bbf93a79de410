"""The embedded chain's interface to the rest of the program: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.base.clock import Clock, SystemClock

from florin_sandbox.devnet.evm.block_rules import BlockRules
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.token_fees import TokenFees
from florin_sandbox.devnet.faucet_limits import GiftBudgets
from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.devnet.server import ChainEngine, DevChain, start_engine
from florin_sandbox.devnet.worker import ChainWorker

if TYPE_CHECKING:
    from florin_sandbox.devnet.evm.rpc import EvmRpcServer
    from florin_sandbox.devnet.socket import SubscriptionDialect

_FRAMES_MAX = 10_240


@dataclass(frozen=True, slots=True)
class EvmDevSettings:
    """The settings of a chain; `block_interval_s` 0 seals a block for each transaction at once.

    `chain_id`, `seed` and `code` are fixed when a file is created; chains with another seed have
    other block hashes. `code` is code at addresses from the first block on, besides Florin's own
    contracts. `gas` contains the prices of gas, `fees` the token that pays for it where there is no
    coin, `rules` the block rules. The faucet's budgets use `real_ns`, which no caller can advance.
    """

    chain_id: int = DEVNET.chain_id
    block_interval_s: float = 0.0
    clock: Clock = field(default_factory=SystemClock)
    seed: int = 0
    code: Mapping[str, bytes] = field(default_factory=dict)
    gas: GasSchedule = field(default_factory=GasSchedule)
    fees: TokenFees | None = None
    rules: BlockRules = field(default_factory=BlockRules)
    real_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class _EvmEngine(ChainEngine):
    """The engine with the EVM chain's parts.

    `header` returns a block's header, the newest for None.
    """

    head: Callable[[], bytes]
    header: Callable[[int | None], Mapping[str, Any]]
    tick: Callable[[], None]


class EvmDevChain(DevChain[_EvmEngine]):
    """A running chain; `open` makes it.

    Pending transactions are kept in memory, as in any node, and lost with the process.
    """

    def __init__(self, worker: ChainWorker, engine: _EvmEngine, settings: EvmDevSettings) -> None:
        super().__init__(worker, engine, settings.clock)
        self._settings = settings
        if settings.block_interval_s > 0:
            self._ticker = asyncio.create_task(self._tick())

    @classmethod
    async def open(cls, path: Path | None, settings: EvmDevSettings | None = None) -> Self:
        """Open or create the chain in a file, or in memory without a path.

        Raise DevChainError if the file is in use, or began with other settings.
        """
        chosen = settings if settings is not None else EvmDevSettings()
        worker, engine = await start_engine("evm-devnet", lambda: _create_engine(path, chosen))
        return cls(worker, engine, chosen)

    def _create_dialect(self) -> SubscriptionDialect:
        # the modules for sockets load slowly
        from florin_sandbox.devnet.evm.newheads import EvmSubscriptionDialect  # noqa: PLC0415

        return EvmSubscriptionDialect(self._worker.run_job, self._engine.header)

    async def _tick(self) -> None:
        clock = self._settings.clock
        interval_us = int(self._settings.block_interval_s * 1_000_000)
        due_us = clock.steady_us()
        while True:
            now_us = clock.steady_us()
            # by a fixed grid: the time to seal makes no block late, and missed blocks are not made
            # up
            due_us += interval_us
            if due_us <= now_us:
                due_us = now_us + interval_us
            await clock.sleep((due_us - now_us) / 1_000_000)
            self._heads.record_head(await self._worker.run_job(self._tick_engine))

    def _tick_engine(self) -> bytes:
        self._engine.tick()
        return self._engine.head()


def _create_engine(path: Path | None, settings: EvmDevSettings) -> _EvmEngine:
    # py-evm takes half a second to import, which a program without this chain avoids
    from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain  # noqa: PLC0415
    from florin_sandbox.devnet.evm.history import EvmHistory  # noqa: PLC0415
    from florin_sandbox.devnet.evm.mining import BlockProducer  # noqa: PLC0415
    from florin_sandbox.devnet.evm.rpc import EvmRpcServer  # noqa: PLC0415
    from florin_sandbox.devnet.evm.views import build_header_view  # noqa: PLC0415

    # a dependency of py-evm raises the limit so far that deep recursion would overflow the stack
    # and end the process; calls nest 1024 deep, each with about eight frames
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _FRAMES_MAX))
    history = EvmHistory(path)
    try:
        chain = EmbeddedEvmChain(
            history,
            settings.chain_id,
            settings.seed,
            lambda: settings.clock.now_us() // 1_000_000,
            settings.code,
            settings.gas,
            settings.fees,
            settings.rules,
        )
    except BaseException:
        history.close()
        raise
    mining = BlockProducer(chain, is_instant=settings.block_interval_s == 0)
    server: EvmRpcServer = EvmRpcServer(chain, mining, GiftBudgets(settings.real_ns))

    def handle(payload: bytes) -> tuple[bytes, float]:
        answer = server.handle(payload)
        return answer.payload, answer.delay_s

    def header(number: int | None) -> Mapping[str, Any]:
        return build_header_view(chain.head if number is None else chain.get_block(number))

    def head() -> bytes:
        return chain.head.hash

    return _EvmEngine(handle, head, history.commit, history.close, header, mining.produce_block)
