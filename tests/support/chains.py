"""The EVM chains that a service under test can use: the embedded one and anvil.

Tests marked `both_chains` run on each. On anvil, the settings name the chain, with the contracts of
the embedded chain at their addresses; blocks have the service's time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import aiohttp
import rlp
from eth_utils import keccak
from florin_sandbox.chains import evm
from florin_sandbox.demo_accounts import ensure_demo_accounts
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.evm.block_rules import BlockRules
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.token_fees import TokenFees
from florin_sandbox.devnet.genesis import DEVNET, FAUCET_WEI, load_artifact
from florin_server.app.sandbox import RunningEmbeddedChain
from florin_server.app.service import FlorinService
from florin_server.base.clock import Clock, SystemClock, TestClock
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.settings import EmbeddedChainSettings, Settings

from tests.support import anvil
from tests.support.anvil_node import AnvilNode, sign_faucet_transaction
from tests.support.chain import ChainClient
from tests.support.chainlab.profiles import EvmProfile, GasPrices
from tests.support.chainlab.selection import get_selected_evm_profile

TREASURY = EvmSigner(b"\x7e" * 32)
GENESIS_S = 1_700_000_000  # before any clock of the tests
RELAYER_WEI = 10**21


class EvmChains(Protocol):
    """An EVM chain that services under test use."""

    def clock(self, start_us: int) -> TestClock:
        """Return a stopped clock whose time is also that of the chain's next block."""

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        """Return the settings of a service on a fresh chain."""

    async def join(self, service: FlorinService) -> None:
        """Make the chain known to the demo accounts, once the service has started."""

    def open_client(self, session: aiohttp.ClientSession, env: dict[str, str]) -> ChainClient:
        """Return a client of the service's chain, for tests."""

    @property
    def profile(self) -> EvmProfile | None:
        """Return the profile of a fresh chain without a service, or None if it has no pace."""

    async def node(self, clock: TestClock) -> EvmDevChain | AnvilNode:
        """Return a fresh chain without a service that answers as the embedded one does."""


class EmbeddedChains:
    """The embedded chain, which a service starts automatically.

    Without a service it has the prices of `gas`, paid in the token of `fees`, and the rules of the
    profile.
    """

    def __init__(
        self,
        gas: GasSchedule | None = None,
        fees: TokenFees | None = None,
        profile: EvmProfile | None = None,
    ) -> None:
        self.fees = fees
        self.profile = profile or get_selected_evm_profile()
        prices = self.profile.gas if self.profile else GasPrices()
        self._gas = gas or prices.schedule()
        self._rules = self.profile.rules if self.profile else BlockRules()

    def clock(self, start_us: int) -> TestClock:
        return TestClock(start_us)

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        return chosen

    async def join(self, service: FlorinService) -> None:
        await ensure_demo_accounts(service)

    def open_client(self, session: aiohttp.ClientSession, env: dict[str, str]) -> ChainClient:
        return ChainClient(session, *_get_node_address(env))

    async def node(self, clock: TestClock) -> EvmDevChain:
        chosen = EvmDevSettings(
            clock=clock, seed=1, gas=self._gas, fees=self.fees, rules=self._rules
        )
        return await EvmDevChain.open(None, chosen)


class AnvilChains:
    """A running anvil; each service begins at the chain's first blocks."""

    profile = None

    def __init__(self, running: anvil.AnvilProcess) -> None:
        self._anvil = running
        deploy_devnet_contracts(running)
        self._snapshot = running.ask("evm_snapshot")
        self._clock: Clock = SystemClock()

    def clock(self, start_us: int) -> TestClock:
        return _AnvilClock(start_us, self._anvil)

    def settings(self, chosen: Settings, clock: Clock | None) -> Settings:
        self._begin(clock or SystemClock(), automine=True)
        embedded_chain = evm.build_chain(chosen, TREASURY)
        chain = embedded_chain.model_copy(
            update={
                "rpc_url": self._anvil.url,
                "faucet": False,
                "reads": "auto",
                "trials": "together",
            }
        )
        without = EmbeddedChainSettings(enabled=False)
        return chosen.model_copy(update={"embedded": without, "chains": (chain, *chosen.chains)})

    async def join(self, service: FlorinService) -> None:
        relayer = EvmSigner(service.secrets.relayer_key).address
        self._anvil.ask("anvil_setBalance", relayer, hex(RELAYER_WEI))
        # it replaces the embedded one
        service.evm_chain = RunningEmbeddedChain(
            _refuse_call, self._anvil.url, _ignore, lambda: False
        )
        await ensure_demo_accounts(service)

    def open_client(self, session: aiohttp.ClientSession, env: dict[str, str]) -> ChainClient:
        node = AnvilNode(self._anvil.url, self._clock, session, own=False)
        return AnvilChainClient(node, *_get_node_address(env))

    async def node(self, clock: TestClock) -> AnvilNode:
        self._begin(clock, automine=False)
        return AnvilNode(self._anvil.url, clock, aiohttp.ClientSession())

    def _begin(self, clock: Clock, *, automine: bool) -> None:
        """Revert to the first blocks, and add one that has the clock's time."""
        ask = self._anvil.ask
        self._clock = clock
        ask("evm_setAutomine", automine)
        ask("anvil_dropAllTransactions")
        assert ask("evm_revert", self._snapshot)
        self._snapshot = ask("evm_snapshot")
        # without an interval blocks take the time of the machine
        if isinstance(clock, TestClock):
            ask("anvil_setBlockTimestampInterval", 0)
        else:
            ask("anvil_removeBlockTimestampInterval")
        ask("evm_setNextBlockTimestamp", clock.now_us() // 1_000_000)
        ask("evm_mine")


class AnvilChainClient(ChainClient):
    """anvil, called as the embedded chain would be."""

    def __init__(self, node: AnvilNode, url: str, token: str) -> None:
        self._node = node
        self._url = url
        self._token = token

    async def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        content = json.loads(await self._node.handle(json.dumps(question).encode()))
        assert "error" not in content, content["error"]
        return content["result"]


def deploy_devnet_contracts(running: anvil.AnvilProcess) -> None:
    """Deploy to a fresh anvil the contracts that the embedded chain begins with."""
    ask, faucet = running.ask, DEVNET.faucet
    ask("anvil_setBalance", faucet, hex(FAUCET_WEI))
    owner = bytes.fromhex(faucet[2:]).rjust(32, b"\0")
    for nonce, (code, place) in enumerate(
        (
            (load_artifact("PaySettler").init, DEVNET.settler),
            (load_artifact("TestDollar").init + owner, DEVNET.token.address),
            (load_artifact("TestEuro").init + owner, DEVNET.euro.address),
            (load_artifact("Opener").init, DEVNET.opener),
            (load_artifact("DevWalletFactory").init, DEVNET.wallet_factory),
            (load_artifact("PayForwarder").init, DEVNET.forwarder),
        )
    ):
        created = keccak(rlp.encode([bytes.fromhex(faucet[2:]), nonce]))[12:]
        assert "0x" + created.hex() == place
        raw = sign_faucet_transaction(nonce, data=code, gas=4_000_000, chainId=running.chain_id)
        assert ask("eth_sendRawTransactionSync", "0x" + raw.hex())["status"] == "0x1"
    for place, name in ((DEVNET.permit2, "DevWitnessPermit2"), (DEVNET.x402_proxy, "DevX402Proxy")):
        ask("anvil_setCode", place, "0x" + load_artifact(name).runtime.hex())


class _AnvilClock(TestClock):
    """A clock whose time is that of anvil's next block."""

    def __init__(self, start_us: int, running: anvil.AnvilProcess) -> None:
        super().__init__(start_us)
        self._anvil = running

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._anvil.ask("evm_setNextBlockTimestamp", self.now_us() // 1_000_000)


@contextmanager
def open_chains(name: str) -> Iterator[EvmChains]:
    """Open the EVM chain of that name for services that run one after the other."""
    if name == "embedded":
        yield EmbeddedChains()
    else:
        # anvil counts the time from its first block on
        with anvil.run_anvil("--timestamp", str(GENESIS_S)) as running:
            yield AnvilChains(running)


def _get_node_address(env: dict[str, str]) -> tuple[str, str]:
    return env["FLORIN_EVM_RPC_URL"], env["FLORIN_EVM_ASSET"].rpartition(":")[2]


async def _refuse_call(_: bytes) -> bytes:
    raise AssertionError("a chain elsewhere is asked over its address")


def _ignore(_: object) -> None:
    raise AssertionError("a chain elsewhere is heard of over its address")
