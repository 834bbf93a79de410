"""The embedded Solana chain of an installation, and its rail."""

from __future__ import annotations

from contextlib import AsyncExitStack

from florin_server.boot.addresses import check_free
from florin_server.boot.embedded import Embedded
from florin_server.boot.home import Home
from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.devnet.solana import SOLNET, SolanaDevChain, SolanaDevSettings
from florin_server.rails.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.settings import SolanaAsset, SolanaChain
from florin_server.rails.solana.signer import SolanaSigner

# what the relayer of the embedded chain pays fees and rent from
_RELAYER_LAMPORTS = 1_000 * 10**9


async def start(
    settings: Settings, home: Home, clock: Clock, relayer: SolanaSigner, stack: AsyncExitStack
) -> Embedded:
    """Starts the chain, with a relayer that can pay."""
    chosen = settings.embedded_solana
    check_free("The Solana test chain", "127.0.0.1", chosen.rpc_port)
    chain = await SolanaDevChain.open(
        home.solana,
        SolanaDevSettings(
            slot_s=chosen.slot_s, finalized_slots=chosen.finalized_slots, clock=clock
        ),
    )
    stack.push_async_callback(chain.close)
    port = await chain.serve_http("127.0.0.1", chosen.rpc_port)
    await JsonRpc(LocalTransport(chain.handle)).call(
        "florin_faucet",
        {"accounts": [relayer.address], "tokens": [], "lamports": _RELAYER_LAMPORTS},
    )
    return Embedded(chain.handle, f"http://127.0.0.1:{port}", chain.listen)


def rail(settings: Settings, embedded: Embedded, relayer: SolanaSigner) -> SolanaRail:
    """The rail of the chain."""
    chosen = settings.embedded_solana
    chain = SolanaChain(
        reference=SOLNET.chain_id.removeprefix("solana:"),
        name=SOLNET.name,
        poll_ms=max(10, min(100, int(chosen.slot_s * 250))),
        treasury=relayer.address,
        eta_s=max(1, round(chosen.slot_s * (chosen.finalized_slots + 1))),
        faucet=True,
        assets=tuple(
            SolanaAsset(
                mint=token.address,
                name=token.name,
                symbol=token.symbol,
                decimals=token.decimals,
                peg=token.peg,
            )
            for token in SOLNET.tokens
        ),
    )
    found = SolanaRail(chain, relayer, LocalTransport(embedded.handle))
    found.announced_by(embedded.listen)
    return found
