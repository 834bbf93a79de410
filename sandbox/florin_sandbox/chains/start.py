"""The start of the embedded chains of an installation."""

from __future__ import annotations

from contextlib import AsyncExitStack

from florin_server.app.home import InstallationSecrets, StateFolder
from florin_server.app.sandbox import EmbeddedChains
from florin_server.base.clock import Clock
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.settings import Settings

from florin_sandbox.chains import evm, solana


async def start_chains(
    settings: Settings,
    home: StateFolder,
    installation_secrets: InstallationSecrets,
    clock: Clock,
    stack: AsyncExitStack,
) -> EmbeddedChains:
    """Start the embedded chains that the settings enable; their rails are not started."""
    embedded = cluster = None
    rails: list[Rail] = []
    if settings.has_embedded:
        keys = evm.EmbeddedEvmKeys(
            EvmSigner(installation_secrets.relayer_key),
            EvmSigner(installation_secrets.treasury_key),
        )
        embedded = await evm.start_chain(settings, home, clock, keys, stack)
        rails.append(evm.build_rail(settings, embedded, keys))
    if settings.has_embedded_solana:
        pair = solana.EmbeddedSolanaKeys(
            SolanaSigner(installation_secrets.solana_relayer_seed),
            SolanaSigner(installation_secrets.solana_treasury_seed),
        )
        cluster = await solana.start_chain(settings, home, clock, pair, stack)
        rails.append(solana.build_rail(settings, cluster, pair))
    return EmbeddedChains(embedded, cluster, rails)
