"""The EVM chains that a service of the tests may work on: its own, and one that others wrote.

Stories marked `both_chains` are told on each. On anvil the service knows a chain of its settings,
with the contracts of the embedded chain at their addresses; blocks have the service's time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import aiohttp
import rlp
from eth_utils import keccak
from florin_server.boot.chains import connected
from florin_server.boot.chains.embedded import Embedded
from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.service import Service
from florin_server.clock import Clock, SystemClock, TestClock
from florin_server.config import EmbeddedChain, Settings
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.evm.block_rules import BlockRules
from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.devnet.evm.token_fees import TokenFees
from florin_server.devnet.genesis import DEVNET, FAUCET_WEI, artifact
from florin_server.rails.evm.sending.transactions import Signer

from tests.support import anvil
from tests.support.anvil_node import AnvilNode, by_faucet
from tests.support.chain import Chain
from tests.support.chainlab.profiles import EvmProfile, GasPrices
from tests.support.chainlab.selection import selected_evm

TREASURY = Signer(b"\x7e" * 32)
GENESIS_S = 1_700_000_000  # before any clock of the tests
RELAYER_WEI = 10**21


class EvmChains(Protocol):
    """Where a service finds its EVM chain."""

    def clock(self, start_us: int) -> TestClock:
        """A clock that stands still, whose time is that of the chain's next block too."""

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        """The settings of a service on a fresh chain."""

    async def join(self, service: Service) -> None:
        """Makes the chain known to the demo accounts, once the service has started."""

    def asked(self, session: aiohttp.ClientSession, env: dict[str, str]) -> Chain:
        """The chain of a service, for tests."""

    @property
    def profile(self) -> EvmProfile | None:
        """What chain a fresh one without a service is like; None for one without a pace."""

    async def node(self, clock: TestClock) -> EvmDevChain | AnvilNode:
        """A fresh chain without a service, which answers what the embedded one would."""


class OwnChain:
    """The embedded chain, which a service starts by itself.

    Without a service it is at the prices of `gas`, which are paid in the token of `fees`, and has
    the rules of the profile.
    """

    def __init__(
        self,
        gas: GasSchedule | None = None,
        fees: TokenFees | None = None,
        profile: EvmProfile | None = None,
    ) -> None:
        self.fees = fees
        self.profile = profile or selected_evm()
        prices = self.profile.gas if self.profile else GasPrices()
        self._gas = gas or prices.schedule()
        self._rules = self.profile.rules if self.profile else BlockRules()

    def clock(self, start_us: int) -> TestClock:
        return TestClock(start_us)

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        return chosen

    async def join(self, service: Service) -> None:
        await ensure_demo(service)

    def asked(self, session: aiohttp.ClientSession, env: dict[str, str]) -> Chain:
        return Chain(session, *_place(env))

    async def node(self, clock: TestClock) -> EvmDevChain:
        chosen = EvmDevSettings(
            clock=clock, seed=1, gas=self._gas, fees=self.fees, rules=self._rules
        )
        return await EvmDevChain.open(None, chosen)


class OnAnvil:
    """A running anvil; each service begins at the chain's first blocks."""

    profile = None

    def __init__(self, running: anvil.Anvil) -> None:
        self._anvil = running
        deploy(running)
        self._begun = running.ask("evm_snapshot")
        self._clock: Clock = SystemClock()

    def clock(self, start_us: int) -> TestClock:
        return _Followed(start_us, self._anvil)

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        self._begin(clock or SystemClock(), automine=True)
        known = connected.embedded_chain(chosen, TREASURY)
        chain = known.model_copy(
            update={
                "rpc_url": self._anvil.url,
                "faucet": False,
                "reads": "auto",
                "trials": "together",
            }
        )
        without = EmbeddedChain(enabled=False)
        return chosen.model_copy(update={"embedded": without, "chains": (chain, *chosen.chains)})

    async def join(self, service: Service) -> None:
        relayer = Signer(service.secrets.relayer_key).address
        self._anvil.ask("anvil_setBalance", relayer, hex(RELAYER_WEI))
        # it stands where the embedded one would
        service.evm = Embedded(_nobody, self._anvil.url, _nobody_listens, lambda: False)
        await ensure_demo(service)

    def asked(self, session: aiohttp.ClientSession, env: dict[str, str]) -> Chain:
        node = AnvilNode(self._anvil.url, self._clock, session, own=False)
        return AnvilChain(node, *_place(env))

    async def node(self, clock: TestClock) -> AnvilNode:
        self._begin(clock, automine=False)
        return AnvilNode(self._anvil.url, clock, aiohttp.ClientSession())

    def _begin(self, clock: Clock, *, automine: bool) -> None:
        """Goes back to the first blocks, and puts another on top that has the clock's time."""
        ask = self._anvil.ask
        self._clock = clock
        ask("evm_setAutomine", automine)
        ask("anvil_dropAllTransactions")
        assert ask("evm_revert", self._begun)
        self._begun = ask("evm_snapshot")
        # without an interval blocks take the time of the machine
        if isinstance(clock, TestClock):
            ask("anvil_setBlockTimestampInterval", 0)
        else:
            ask("anvil_removeBlockTimestampInterval")
        ask("evm_setNextBlockTimestamp", clock.now_us() // 1_000_000)
        ask("evm_mine")


class AnvilChain(Chain):
    """anvil, asked as the embedded chain would be."""

    def __init__(self, node: AnvilNode, url: str, token: str) -> None:
        self._node = node
        self._url = url
        self._token = token

    async def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        content = json.loads(await self._node.handle(json.dumps(question).encode()))
        assert "error" not in content, content["error"]
        return content["result"]


def deploy(running: anvil.Anvil) -> None:
    """Puts on a fresh anvil what the embedded chain begins with."""
    ask, faucet = running.ask, DEVNET.faucet
    ask("anvil_setBalance", faucet, hex(FAUCET_WEI))
    owner = bytes.fromhex(faucet[2:]).rjust(32, b"\0")
    for nonce, (code, place) in enumerate(
        (
            (artifact("PaySettler").bytecode, DEVNET.settler),
            (artifact("TestDollar").bytecode + owner, DEVNET.token.address),
            (artifact("TestEuro").bytecode + owner, DEVNET.euro.address),
            (artifact("Opener").bytecode, DEVNET.opener),
            (artifact("DevWalletFactory").bytecode, DEVNET.wallet_factory),
        )
    ):
        made = keccak(rlp.encode([bytes.fromhex(faucet[2:]), nonce]))[12:]
        assert "0x" + made.hex() == place
        raw = by_faucet(nonce, data=code, gas=4_000_000, chainId=running.chain_id)
        assert ask("eth_sendRawTransactionSync", "0x" + raw.hex())["status"] == "0x1"
    ask("anvil_setCode", DEVNET.permit2, "0x" + artifact("DevPermit2").runtime.hex())


class _Followed(TestClock):
    """Its time is that of anvil's next block."""

    def __init__(self, start_us: int, running: anvil.Anvil) -> None:
        super().__init__(start_us)
        self._anvil = running

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._anvil.ask("evm_setNextBlockTimestamp", self.now_us() // 1_000_000)


@contextmanager
def opened(name: str) -> Iterator[EvmChains]:
    """The EVM chain of that name for services, one after the other."""
    if name == "embedded":
        yield OwnChain()
    else:
        # anvil counts the time from its first block on
        with anvil.running("--timestamp", str(GENESIS_S)) as running:
            yield OnAnvil(running)


def _place(env: dict[str, str]) -> tuple[str, str]:
    return env["FLORIN_EVM_RPC_URL"], env["FLORIN_EVM_ASSET"].rpartition(":")[2]


async def _nobody(_: bytes) -> bytes:
    raise AssertionError("a chain elsewhere is asked over its address")


def _nobody_listens(_: object) -> None:
    raise AssertionError("a chain elsewhere is heard of over its address")
