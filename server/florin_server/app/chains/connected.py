"""The chains of an installation: the embedded ones, and those in the settings."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.home import InstallationSecrets, SetupError, StateFolder
from florin_server.app.sandbox import EmbeddedChains, RunningEmbeddedChain, require_sandbox
from florin_server.base.clock import Clock
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

_log = logging.getLogger(__name__)


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
    embedded = EmbeddedChains()
    if settings.has_embedded or settings.has_embedded_solana:
        embedded = await require_sandbox().start_chains(
            settings, home, installation_secrets, clock, stack
        )
    rails = [*embedded.rails, *_build_configured_rails(settings, installation_secrets)]
    for chain_id, count in Counter(rail.chain_id for rail in rails).items():
        if count > 1:
            raise SetupError(f"the settings contain chain {chain_id} more than once")
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    for rail in rails:
        stack.push_async_callback(rail.close)
    return ConnectedChains(embedded.evm, embedded.solana, rails)


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
