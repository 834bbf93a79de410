"""The embedded EVM chain of an installation, and its rail."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil

from florin_server.app.home import StateFolder
from florin_server.app.sandbox import RunningEmbeddedChain
from florin_server.app.servers.addresses import EVM_PORT_SETTING
from florin_server.base.clock import Clock
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings, EvmCoinSettings
from florin_server.rails.networks.embedded import EmbeddedToken
from florin_server.settings import Settings

from florin_sandbox.chains.listener import HOST, open_listener
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.genesis import DEVNET

# the gas funds of the embedded chain's relayer and treasury
_GAS_WEI = 10**21
# the treasury's funds before it receives anything: a float of each test token
_FLOAT_UNITS = 100_000 * 10**6


@dataclass(frozen=True, slots=True)
class EmbeddedEvmKeys:
    """The signing keys of the embedded chain."""

    relayer: EvmSigner
    treasury: EvmSigner


async def start_chain(
    settings: Settings,
    home: StateFolder,
    clock: Clock,
    keys: EmbeddedEvmKeys,
    stack: AsyncExitStack,
) -> RunningEmbeddedChain:
    """Start the chain, with a relayer and a treasury that can pay."""
    embedded = await _open_chain(settings, home, clock, stack)
    faucet, given_away = JsonRpcClient(LocalTransport(embedded.handle)), 0
    for account, units in ((keys.relayer, 0), (keys.treasury, _FLOAT_UNITS)):
        # seldom: for the ledger it is unknown money
        gift = {"nativeWei": hex(_GAS_WEI), "tokenUnits": hex(units), "rarely": True}
        response = await faucet.call("florin_faucet", {"accounts": [account.address], **gift})
        given_away += len(response["transactions"])
    if given_away:
        # the ledger starts with what is final
        await faucet.call("evm_mine", {"blocks": settings.embedded.confirmations - 1})
    return embedded


def build_rail(
    settings: Settings, embedded: RunningEmbeddedChain, keys: EmbeddedEvmKeys
) -> EvmRail:
    """Return the rail of the chain."""
    chain = build_chain(settings, keys.treasury)
    transport = LocalTransport(embedded.handle)
    evm_rail = EvmRail(chain, keys.relayer, transport, treasury=keys.treasury)
    evm_rail.nodes.follow_announcements(embedded.add_listener)
    return evm_rail


async def _open_chain(
    settings: Settings, home: StateFolder, clock: Clock, stack: AsyncExitStack
) -> RunningEmbeddedChain:
    dev_settings = EvmDevSettings(
        chain_id=DEVNET.chain_id,
        block_interval_s=settings.embedded.block_interval_s,
        clock=clock,
    )
    wanted_port = settings.embedded.rpc_port
    listener = stack.enter_context(
        open_listener(home, "FLORIN_EVM_RPC_URL", "The test chain", wanted_port, EVM_PORT_SETTING)
    )
    chain = await EvmDevChain.open(home.evm_path, dev_settings)
    stack.push_async_callback(chain.close)
    port = await chain.serve_http(listener)
    return RunningEmbeddedChain(
        chain.handle, f"http://{HOST}:{port}", chain.add_listener, lambda: chain.is_busy
    )


def build_chain(settings: Settings, treasury: EvmSigner) -> EvmChainSettings:
    """Return the embedded EVM chain as an operator would configure it."""
    return EvmChainSettings(
        chain_id=DEVNET.chain_id,
        name=DEVNET.name,
        confirmations=settings.embedded.confirmations,
        poll_ms=max(10, min(100, int(settings.embedded.block_interval_s * 250))),
        settler=DEVNET.settler,
        opener=DEVNET.opener,
        factories=(DEVNET.wallet_factory,),
        forwarder=ForwarderSettings(address=DEVNET.forwarder),
        treasury=treasury.address,
        # rounded up, so that the promise is kept
        eta_s=max(1, ceil(settings.embedded.block_interval_s * settings.embedded.confirmations)),
        faucet=True,
        # in the same process a call costs next to nothing
        reads="batch",
        trials="alone",
        coin=EvmCoinSettings(name="Test Ether", symbol="tETH"),
        assets=tuple(_build_asset(token) for token in DEVNET.tokens),
    )


def _build_asset(token: EmbeddedToken) -> EvmAssetSettings:
    common = EvmAssetSettings(
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
    )
    if token.version is None:
        return common.model_copy(update={"method": "permit2", "approve_from_zero": True})
    return common.model_copy(update={"domain_version": token.version})
