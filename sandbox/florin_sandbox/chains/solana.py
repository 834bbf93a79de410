"""The embedded Solana chain of an installation, and its rail."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil

from florin_server.app.home import StateFolder
from florin_server.app.sandbox import RunningEmbeddedChain
from florin_server.app.servers.addresses import SOLANA_PORT_SETTING
from florin_server.base.clock import Clock
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import (
    SolanaAssetSettings,
    SolanaChainSettings,
    SolanaCoinSettings,
)
from florin_server.settings import Settings

from florin_sandbox.chains.listener import HOST, open_listener
from florin_sandbox.devnet.solana import SOLANA_DEVNET, SolanaDevChain, SolanaDevSettings

# the funds of the embedded chain's relayer for fees and rent
_RELAYER_LAMPORTS = 1_000 * 10**9
# the treasury's funds before it receives anything: a float of each test token, and of the coin
_FLOAT_UNITS = 100_000 * 10**6
_FLOAT_LAMPORTS = 1_000 * 10**9


@dataclass(frozen=True, slots=True)
class EmbeddedSolanaKeys:
    """The signing keys of the embedded chain."""

    relayer: SolanaSigner
    treasury: SolanaSigner


async def start_chain(
    settings: Settings,
    home: StateFolder,
    clock: Clock,
    keys: EmbeddedSolanaKeys,
    stack: AsyncExitStack,
) -> RunningEmbeddedChain:
    """Start the chain, with a relayer and a treasury that can pay."""
    chosen = settings.embedded_solana
    what = "The Solana test chain"
    listener = stack.enter_context(
        open_listener(home, "FLORIN_SOLANA_RPC_URL", what, chosen.rpc_port, SOLANA_PORT_SETTING)
    )
    chain = await SolanaDevChain.open(
        home.solana_path,
        SolanaDevSettings(
            slot_s=chosen.slot_s,
            confirmed_slots=1 if chosen.takes_confirmed else None,
            finalized_slots=chosen.finalized_slots,
            clock=clock,
        ),
    )
    stack.push_async_callback(chain.close)
    port = await chain.serve_http(listener)
    faucet = JsonRpcClient(LocalTransport(chain.handle))
    for account, gift in (
        (keys.relayer, {"tokens": [], "lamports": _RELAYER_LAMPORTS}),
        # the relayer pays its fees
        (keys.treasury, {"lamports": _FLOAT_LAMPORTS, "tokenUnits": _FLOAT_UNITS}),
    ):
        # seldom: for the ledger it is unknown money
        await faucet.call("florin_faucet", {"accounts": [account.address], "rarely": True, **gift})
    return RunningEmbeddedChain(
        chain.handle, f"http://{HOST}:{port}", chain.add_listener, lambda: chain.is_busy
    )


def build_rail(
    settings: Settings, embedded: RunningEmbeddedChain, keys: EmbeddedSolanaKeys
) -> SolanaRail:
    """Return the rail of the chain."""
    chosen = settings.embedded_solana
    chain = SolanaChainSettings(
        reference=SOLANA_DEVNET.chain_id.removeprefix("solana:"),
        name=SOLANA_DEVNET.name,
        poll_ms=max(10, min(100, int(chosen.slot_s * 250))),
        treasury=keys.treasury.address,
        eta_s=max(1, ceil(chosen.slot_s * (chosen.finalized_slots + 1))),
        faucet=True,
        durable_nonces=chosen.durable_nonces,
        accounts_a_day=chosen.accounts_a_day,
        accounts_a_merchant_day=chosen.accounts_a_merchant_day,
        accounts_a_partner_day=chosen.accounts_a_partner_day,
        coin=SolanaCoinSettings(name="Test SOL", symbol="tSOL"),
        assets=tuple(
            SolanaAssetSettings(
                mint=token.address,
                name=token.name,
                symbol=token.symbol,
                decimals=token.decimals,
                peg=token.peg,
            )
            for token in SOLANA_DEVNET.tokens
        ),
    )
    solana_rail = SolanaRail(
        chain, keys.relayer, LocalTransport(embedded.handle), treasury=keys.treasury
    )
    solana_rail.nodes.follow_announcements(embedded.add_listener)
    return solana_rail
