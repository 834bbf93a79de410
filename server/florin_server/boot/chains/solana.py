"""The embedded Solana chain of an installation, and its rail."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil

from florin_server.boot.chains.embedded import HOST, Embedded, open_listener
from florin_server.boot.home import Home
from florin_server.boot.servers.addresses import SOLANA_PORT
from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.devnet.solana import SOLNET, SolanaDevChain, SolanaDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaAsset, SolanaChain, SolanaCoin

# what the relayer of the embedded chain pays fees and rent from
_RELAYER_LAMPORTS = 1_000 * 10**9
# what the treasury can pay back before it has received anything: a float of each test token, and
# of the coin
_FLOAT_UNITS = 100_000 * 10**6
_FLOAT_LAMPORTS = 1_000 * 10**9


@dataclass(frozen=True, slots=True)
class Keys:
    """Who signs on the embedded chain."""

    relayer: SolanaSigner
    treasury: SolanaSigner


async def start(
    settings: Settings, home: Home, clock: Clock, keys: Keys, stack: AsyncExitStack
) -> Embedded:
    """Starts the chain, with a relayer and a treasury that can pay."""
    chosen = settings.embedded_solana
    what = "The Solana test chain"
    listener = stack.enter_context(
        open_listener(home, "FLORIN_SOLANA_RPC_URL", what, chosen.rpc_port, SOLANA_PORT)
    )
    chain = await SolanaDevChain.open(
        home.solana,
        SolanaDevSettings(
            slot_s=chosen.slot_s,
            confirmed_slots=1 if chosen.takes_confirmed else None,
            finalized_slots=chosen.finalized_slots,
            clock=clock,
        ),
    )
    stack.push_async_callback(chain.close)
    port = await chain.serve_http(listener)
    faucet = JsonRpc(LocalTransport(chain.handle))
    for account, gift in (
        (keys.relayer, {"tokens": [], "lamports": _RELAYER_LAMPORTS}),
        # the relayer pays its fees
        (keys.treasury, {"lamports": _FLOAT_LAMPORTS, "tokenUnits": _FLOAT_UNITS}),
    ):
        # seldom: for the books it is money that nobody knows of
        await faucet.call("florin_faucet", {"accounts": [account.address], "rarely": True, **gift})
    return Embedded(chain.handle, f"http://{HOST}:{port}", chain.listen, lambda: chain.busy)


def rail(settings: Settings, embedded: Embedded, keys: Keys) -> SolanaRail:
    """The rail of the chain."""
    chosen = settings.embedded_solana
    chain = SolanaChain(
        reference=SOLNET.chain_id.removeprefix("solana:"),
        name=SOLNET.name,
        poll_ms=max(10, min(100, int(chosen.slot_s * 250))),
        treasury=keys.treasury.address,
        eta_s=max(1, ceil(chosen.slot_s * (chosen.finalized_slots + 1))),
        faucet=True,
        durable_nonces=chosen.durable_nonces,
        accounts_a_day=chosen.accounts_a_day,
        accounts_a_merchant_day=chosen.accounts_a_merchant_day,
        accounts_a_partner_day=chosen.accounts_a_partner_day,
        coin=SolanaCoin(name="Test SOL", symbol="tSOL"),
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
    found = SolanaRail(chain, keys.relayer, LocalTransport(embedded.handle), treasury=keys.treasury)
    found.nodes.announced_by(embedded.listen)
    return found
