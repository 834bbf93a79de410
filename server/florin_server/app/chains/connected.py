"""The chains of an installation: the embedded ones, and those in the settings."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil

from florin_server.app.chains import solana
from florin_server.app.chains.embedded import HOST, RunningEmbeddedChain, open_listener
from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.home import InstallationSecrets, SetupError, StateFolder
from florin_server.app.servers.addresses import EVM_PORT_SETTING
from florin_server.base.clock import Clock
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import DEVNET, EvmDevToken
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings, EvmCoinSettings
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

# the gas funds of the embedded chain's relayer and treasury
_GAS_WEI = 10**21
# the treasury's funds before it receives anything: a float of each test token
_FLOAT_UNITS = 100_000 * 10**6


@dataclass(frozen=True, slots=True)
class ConnectedChains:
    """Every chain; an embedded one is None if it is off."""

    evm: RunningEmbeddedChain | None
    solana: RunningEmbeddedChain | None
    rails: list[Rail]


async def start_chains(
    settings: Settings,
    home: StateFolder,
    installation_secrets: InstallationSecrets,
    clock: Clock,
    stack: AsyncExitStack,
) -> ConnectedChains:
    """Start every chain; a chain that does not answer is watched until it does."""
    embedded: RunningEmbeddedChain | None = None
    cluster: RunningEmbeddedChain | None = None
    rails: list[Rail] = []
    if settings.has_embedded:
        embedded = await _start_embedded(settings, home, clock, stack)
        transport = LocalTransport(embedded.handle)
        signer, treasury = (
            EvmSigner(installation_secrets.relayer_key),
            EvmSigner(installation_secrets.treasury_key),
        )
        faucet, given_away = JsonRpcClient(transport), 0
        for account, units in ((signer.address, 0), (treasury.address, _FLOAT_UNITS)):
            # seldom: for the ledger it is unknown money
            gift = {"nativeWei": hex(_GAS_WEI), "tokenUnits": hex(units), "rarely": True}
            response = await faucet.call("florin_faucet", {"accounts": [account], **gift})
            given_away += len(response["transactions"])
        if given_away:
            # the ledger starts with what is final
            await faucet.call("evm_mine", {"blocks": settings.embedded.confirmations - 1})
        chain = build_embedded_chain(settings, treasury)
        of_embedded = EvmRail(chain, signer, transport, treasury=treasury)
        of_embedded.nodes.follow_announcements(embedded.add_listener)
        rails.append(of_embedded)
    if settings.has_embedded_solana:
        pair = solana.EmbeddedSolanaKeys(
            SolanaSigner(installation_secrets.solana_relayer_seed),
            SolanaSigner(installation_secrets.solana_treasury_seed),
        )
        cluster = await solana.start_chain(settings, home, clock, pair, stack)
        rails.append(solana.build_rail(settings, cluster, pair))
    rails.extend(_build_configured_rails(settings, installation_secrets))
    for chain_id, count in Counter(rail.chain_id for rail in rails).items():
        if count > 1:
            raise SetupError(f"the settings contain chain {chain_id} more than once")
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    for rail in rails:
        stack.push_async_callback(rail.close)
    return ConnectedChains(embedded, cluster, rails)


async def start_configured_rails(
    settings: Settings, installation_secrets: InstallationSecrets
) -> list[Rail]:
    """Return the rails of all chains that the settings name, started."""
    rails = _build_configured_rails(settings, installation_secrets)
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    return rails


def _build_configured_rails(
    settings: Settings, installation_secrets: InstallationSecrets
) -> list[Rail]:
    keys = ChainKeyring(settings, installation_secrets)
    chains: tuple[EvmChainSettings | SolanaChainSettings, ...] = (
        *settings.chains,
        *settings.solana_chains,
    )
    return [build_rail(chain, keys) for chain in chains]


def build_rail(chain: EvmChainSettings | SolanaChainSettings, keys: ChainKeyring) -> Rail:
    """Return the rail of a configured chain; SetupError if its settings or keys are not usable."""
    if not chain.rpc_urls:
        raise SetupError(f"the chain {chain.name} has no rpc_url")
    if isinstance(chain, SolanaChainSettings):
        relayer, *signers = keys.get_solana_relayers(chain)
        if signers:
            raise SetupError(f"{chain.name}: only one relayer key is supported")
        require_separate_treasury(chain, [relayer.address])
        return SolanaRail(chain, relayer, treasury=keys.find_solana_treasury(chain))
    signer, *more = keys.get_relayers(chain)
    require_separate_treasury(
        chain, [signer.address, *(each_signer.address for each_signer in more)]
    )
    return EvmRail(chain, signer, additional_signers=more, treasury=keys.find_treasury(chain))


def require_separate_treasury(
    chain: EvmChainSettings | SolanaChainSettings, relayers: Iterable[str]
) -> None:
    """Refuse a treasury that is a relayer: the key that pays for gas is easier to steal."""
    treasury = chain.treasury_account.rpartition(":")[2]
    if treasury in relayers:
        raise SetupError(f"{chain.name}: the treasury {treasury} must not be the relayer's account")


async def _start_rail(rail: Rail) -> None:
    try:
        await rail.start()
    except RailUnavailable as error:
        _log.warning("chain %s does not answer yet: %s", rail.chain_id, error)


async def _start_embedded(
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


def build_embedded_chain(settings: Settings, treasury: EvmSigner) -> EvmChainSettings:
    """Return the embedded EVM chain as an operator would configure it."""
    return EvmChainSettings(
        chain_id=DEVNET.chain_id,
        name=DEVNET.name,
        confirmations=settings.embedded.confirmations,
        poll_ms=max(10, min(100, int(settings.embedded.block_interval_s * 250))),
        settler=DEVNET.settler,
        opener=DEVNET.opener,
        factories=(DEVNET.wallet_factory,),
        treasury=treasury.address,
        # rounded up, so that the promise is kept
        eta_s=max(1, ceil(settings.embedded.block_interval_s * settings.embedded.confirmations)),
        faucet=True,
        # in the same process a call costs next to nothing
        reads="batch",
        trials="alone",
        coin=EvmCoinSettings(name="Test Ether", symbol="tETH"),
        assets=tuple(_build_embedded_asset(token) for token in DEVNET.tokens),
    )


def _build_embedded_asset(token: EvmDevToken) -> EvmAssetSettings:
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
