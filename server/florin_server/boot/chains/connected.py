"""The chains of an installation: the embedded ones, and those that the operator named."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil

from florin_server.boot.chains import solana
from florin_server.boot.chains.embedded import HOST, Embedded, open_listener
from florin_server.boot.chains.keys import Keyring
from florin_server.boot.home import Home, Refused, Secrets
from florin_server.boot.servers.addresses import EVM_PORT
from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import DEVNET, DevToken
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmAsset, EvmChain, EvmCoin
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import RailUnavailable

_log = logging.getLogger(__name__)

# what relayer and treasury of the embedded chain pay gas from
_GAS_WEI = 10**21
# what the treasury can pay back before it has received anything: a float of each test token
_FLOAT_UNITS = 100_000 * 10**6


@dataclass(frozen=True, slots=True)
class Chains:
    """Every chain; an embedded one is None if it is off."""

    evm: Embedded | None
    solana: Embedded | None
    rails: list[Rail]


async def start(
    settings: Settings, home: Home, kept: Secrets, clock: Clock, stack: AsyncExitStack
) -> Chains:
    """Starts every chain; one that does not answer is watched until it does."""
    embedded: Embedded | None = None
    cluster: Embedded | None = None
    rails: list[Rail] = []
    if settings.has_embedded:
        embedded = await _start_embedded(settings, home, clock, stack)
        transport = LocalTransport(embedded.handle)
        signer, treasury = Signer(kept.relayer_key), Signer(kept.treasury_key)
        faucet, given_away = JsonRpc(transport), 0
        for account, units in ((signer.address, 0), (treasury.address, _FLOAT_UNITS)):
            # seldom: for the books it is money that nobody knows of
            gift = {"nativeWei": hex(_GAS_WEI), "tokenUnits": hex(units), "rarely": True}
            given = await faucet.call("florin_faucet", {"accounts": [account], **gift})
            given_away += len(given["transactions"])
        if given_away:
            # the books begin with what is final
            await faucet.call("evm_mine", {"blocks": settings.embedded.confirmations - 1})
        chain = embedded_chain(settings, treasury)
        of_embedded = EvmRail(chain, signer, transport, treasury=treasury)
        of_embedded.nodes.announced_by(embedded.listen)
        rails.append(of_embedded)
    if settings.has_embedded_solana:
        pair = solana.Keys(
            SolanaSigner(kept.solana_relayer_seed), SolanaSigner(kept.solana_treasury_seed)
        )
        cluster = await solana.start(settings, home, clock, pair, stack)
        rails.append(solana.rail(settings, cluster, pair))
    rails.extend(_named(settings, kept))
    for one, count in Counter(rail.chain_id for rail in rails).items():
        if count > 1:
            raise Refused(f"the settings name the chain {one} more than once")
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    for rail in rails:
        stack.push_async_callback(rail.close)
    return Chains(embedded, cluster, rails)


async def named(settings: Settings, kept: Secrets) -> list[Rail]:
    """The rails of all chains that the settings name, started."""
    rails = _named(settings, kept)
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    return rails


def _named(settings: Settings, kept: Secrets) -> list[Rail]:
    keys = Keyring(settings, kept)
    chains: tuple[EvmChain | SolanaChain, ...] = (*settings.chains, *settings.solana_chains)
    return [rail_of(chain, keys) for chain in chains]


def rail_of(chain: EvmChain | SolanaChain, keys: Keyring) -> Rail:
    """The rail of a chain that the operator named; Refused if its settings or keys will not do."""
    if not chain.rpc_urls:
        raise Refused(f"the chain {chain.name} has no rpc_url")
    if isinstance(chain, SolanaChain):
        relayer, *others = keys.solana_relayers(chain)
        if others:
            raise Refused(f"{chain.name}: one relayer key co-signs on Solana, not several")
        check_apart(chain, [relayer.address])
        return SolanaRail(chain, relayer, treasury=keys.solana_treasury(chain))
    signer, *more = keys.relayers(chain)
    check_apart(chain, [signer.address, *(one.address for one in more)])
    return EvmRail(chain, signer, more=more, treasury=keys.treasury(chain))


def check_apart(chain: EvmChain | SolanaChain, relayers: Iterable[str]) -> None:
    """Refused if the treasury is a relayer: what pays for gas is kept where it can be stolen."""
    treasury = chain.treasury_account.rpartition(":")[2]
    if treasury in relayers:
        raise Refused(f"{chain.name}: the treasury {treasury} must not be the relayer's account")


async def _start_rail(rail: Rail) -> None:
    try:
        await rail.start()
    except RailUnavailable as error:
        _log.warning("chain %s does not answer yet: %s", rail.chain_id, error)


async def _start_embedded(
    settings: Settings, home: Home, clock: Clock, stack: AsyncExitStack
) -> Embedded:
    wanted = EvmDevSettings(
        chain_id=DEVNET.chain_id,
        block_interval_s=settings.embedded.block_interval_s,
        clock=clock,
    )
    wanted_port = settings.embedded.rpc_port
    listener = stack.enter_context(
        open_listener(home, "FLORIN_EVM_RPC_URL", "The test chain", wanted_port, EVM_PORT)
    )
    chain = await EvmDevChain.open(home.evm, wanted)
    stack.push_async_callback(chain.close)
    port = await chain.serve_http(listener)
    return Embedded(chain.handle, f"http://{HOST}:{port}", chain.listen, lambda: chain.busy)


def embedded_chain(settings: Settings, treasury: Signer) -> EvmChain:
    """The embedded EVM chain as an operator would write it down."""
    return EvmChain(
        chain_id=DEVNET.chain_id,
        name=DEVNET.name,
        confirmations=settings.embedded.confirmations,
        poll_ms=max(10, min(100, int(settings.embedded.block_interval_s * 250))),
        settler=DEVNET.settler,
        opener=DEVNET.opener,
        factories=(DEVNET.wallet_factory,),
        treasury=treasury.address,
        # rounded up: a promise is kept
        eta_s=max(1, ceil(settings.embedded.block_interval_s * settings.embedded.confirmations)),
        faucet=True,
        # in the same process a call costs nothing but itself
        reads="batch",
        trials="alone",
        coin=EvmCoin(name="Test Ether", symbol="tETH"),
        assets=tuple(_embedded_asset(token) for token in DEVNET.tokens),
    )


def _embedded_asset(token: DevToken) -> EvmAsset:
    common = EvmAsset(
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
    )
    if token.version is None:
        return common.model_copy(update={"method": "permit2", "approve_from_zero": True})
    return common.model_copy(update={"domain_version": token.version})
