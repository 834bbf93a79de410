"""The embedded chain as the rest of the program sees it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.clock import Clock, SystemClock
from florin_server.devnet.evm.block_rules import BlockRules
from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.devnet.evm.token_fees import TokenFees
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.gifts import Gifts
from florin_server.devnet.server import DevChain, Engine, started
from florin_server.devnet.worker import Worker

if TYPE_CHECKING:
    from florin_server.devnet.evm.rpc import RpcServer
    from florin_server.devnet.socket import Dialect

_FRAMES_MAX = 10_240


@dataclass(frozen=True, slots=True)
class EvmDevSettings:
    """How a chain behaves. `block_interval_s` 0 seals a block at once for each transaction.

    `chain_id`, `seed` and `code` are fixed when a file is created; chains with another seed have
    other block hashes. `code` is what stands at addresses from the first block on, beside Florin's
    own contracts. `gas` holds the prices of gas, `fees` the token that it is paid in where there is
    no coin, `rules` tell how blocks are made. The faucet's budgets go by `real_ns`, which no caller
    can move on.
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
class _Engine(Engine):
    """What else lives there; `header` is a block's, the newest one's for None."""

    head: Callable[[], bytes]
    header: Callable[[int | None], Mapping[str, Any]]
    tick: Callable[[], None]


class EvmDevChain(DevChain[_Engine]):
    """A running chain; `open` makes one.

    Transactions that wait for a block are kept in memory, as in any node, and lost with the
    process.
    """

    def __init__(self, worker: Worker, engine: _Engine, settings: EvmDevSettings) -> None:
        super().__init__(worker, engine, settings.clock)
        self._settings = settings
        if settings.block_interval_s > 0:
            self._ticker = asyncio.create_task(self._tick())

    @classmethod
    async def open(cls, path: Path | None, settings: EvmDevSettings | None = None) -> Self:
        """Opens or begins the chain in a file; in memory without one.

        Raises DevChainError if the file is in use, or began with other settings.
        """
        chosen = settings if settings is not None else EvmDevSettings()
        worker, engine = await started("evm-devnet", lambda: _engine(path, chosen))
        return cls(worker, engine, chosen)

    def contracts(self) -> dict[str, str]:
        """Addresses of what the first block holds, lower-case."""
        return {
            "settler": DEVNET.settler,
            "token": DEVNET.token.address,
            "euro": DEVNET.euro.address,
            "permit2": DEVNET.permit2,
            "faucet": DEVNET.faucet,
        }

    def _dialect(self) -> Dialect:
        # what sockets need is slow to load
        from florin_server.devnet.evm.newheads import EvmDialect  # noqa: PLC0415

        return EvmDialect(self._worker.run, self._engine.header)

    async def _tick(self) -> None:
        clock = self._settings.clock
        interval_us = int(self._settings.block_interval_s * 1_000_000)
        due_us = clock.steady_us()
        while True:
            now_us = clock.steady_us()
            # by a fixed grid: what sealing takes makes no block late, and nothing is caught up with
            due_us += interval_us
            if due_us <= now_us:
                due_us = now_us + interval_us
            await clock.sleep((due_us - now_us) / 1_000_000)
            self._heads.at(await self._worker.run(self._ticked))

    def _ticked(self) -> bytes:
        self._engine.tick()
        return self._engine.head()


def _engine(path: Path | None, settings: EvmDevSettings) -> _Engine:
    # py-evm takes half a second to import, which a program without this chain need not wait for
    from florin_server.devnet.evm.chain import Chain  # noqa: PLC0415
    from florin_server.devnet.evm.history import History  # noqa: PLC0415
    from florin_server.devnet.evm.mining import Mining  # noqa: PLC0415
    from florin_server.devnet.evm.rpc import RpcServer  # noqa: PLC0415
    from florin_server.devnet.evm.views import header_view  # noqa: PLC0415

    # a dependency of py-evm raises the limit so far that deep recursion would overflow the stack
    # and end the process; calls nest 1024 deep, each some eight frames
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _FRAMES_MAX))
    history = History(path)
    try:
        chain = Chain(
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
    mining = Mining(chain, at_once=settings.block_interval_s == 0)
    server: RpcServer = RpcServer(chain, mining, Gifts(settings.real_ns))

    def handle(payload: bytes) -> tuple[bytes, float]:
        answer = server.handle(payload)
        return answer.payload, answer.delay_s

    def header(number: int | None) -> Mapping[str, Any]:
        return header_view(chain.head if number is None else chain.block(number))

    def head() -> bytes:
        return chain.head.hash

    return _Engine(handle, head, history.commit, history.close, header, mining.tick)
