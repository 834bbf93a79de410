"""The chains of an installation: the embedded one, and those that the operator named."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass

from florin_server.boot.addresses import check_free
from florin_server.boot.home import Home, Refused, Secrets
from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import DEVNET, DevToken
from florin_server.rails.base import Rail, RailUnavailable
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import EvmAsset, EvmChain, EvmCoin
from florin_server.rails.evm.transactions import Signer
from florin_server.rails.jsonrpc import JsonRpc, LocalTransport

_log = logging.getLogger(__name__)

# what the relayer of the embedded chain pays gas from
_RELAYER_WEI = 10**21


@dataclass(frozen=True, slots=True)
class Embedded:
    """The running embedded chain."""

    chain: EvmDevChain
    rpc_url: str


async def start(
    settings: Settings, home: Home, kept: Secrets, clock: Clock, stack: AsyncExitStack
) -> tuple[Embedded | None, list[Rail]]:
    """Starts every chain; one that does not answer is watched until it does."""
    embedded: Embedded | None = None
    rails: list[EvmRail] = []
    if settings.embedded.enabled:
        embedded = await _start_embedded(settings, home, clock, stack)
        transport = LocalTransport(embedded.chain.handle)
        signer = Signer(kept.relayer_key)
        await JsonRpc(transport).call(
            "florin_faucet",
            {"accounts": [signer.address], "nativeWei": hex(_RELAYER_WEI), "tokenUnits": "0x0"},
        )
        rails.append(EvmRail(_embedded_chain(settings, signer), signer, transport))
    rails.extend(rail_of(chain, kept) for chain in settings.chains)
    for one, count in Counter(rail.chain_id for rail in rails).items():
        if count > 1:
            raise Refused(f"the settings name the chain {one} more than once")
    await asyncio.gather(*(_start_rail(rail) for rail in rails))
    for rail in rails:
        stack.push_async_callback(rail.close)
    return embedded, [*rails]


def rail_of(chain: EvmChain, kept: Secrets) -> EvmRail:
    """The rail of a chain that the operator named; Refused if nobody can reach it."""
    if chain.rpc_url is None:
        raise Refused(f"the chain {chain.name} has no rpc_url")
    return EvmRail(chain, Signer(kept.relayer_key))


async def _start_rail(rail: EvmRail) -> None:
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
    check_free("The test chain", "127.0.0.1", settings.embedded.rpc_port)
    chain = await EvmDevChain.open(home.evm, wanted)
    stack.push_async_callback(chain.close)
    port = await chain.serve_http("127.0.0.1", settings.embedded.rpc_port)
    return Embedded(chain, f"http://127.0.0.1:{port}")


def _embedded_chain(settings: Settings, signer: Signer) -> EvmChain:
    return EvmChain(
        chain_id=DEVNET.chain_id,
        name=DEVNET.name,
        confirmations=settings.embedded.confirmations,
        poll_ms=max(10, min(100, int(settings.embedded.block_interval_s * 250))),
        settler=DEVNET.settler,
        treasury=signer.address,
        eta_s=max(1, round(settings.embedded.block_interval_s * settings.embedded.confirmations)),
        faucet=True,
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
