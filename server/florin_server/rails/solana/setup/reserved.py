"""The accounts of a Solana cluster that belong to this service, or to nobody."""

from __future__ import annotations

from collections.abc import Mapping

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.sending.durable_nonces import seeds_of
from florin_server.rails.solana.settings import DURABLE_NONCES_MAX, SolanaChain


def reserved(chain: SolanaChain, relayer: Pubkey) -> Mapping[str, str]:
    """What each of them is, by CAIP-10.

    All of it follows from the settings: a cluster that does not answer changes nothing. Durable
    nonces count as many as there can ever be: fewer in the settings leave the accounts in place.
    """
    treasury = spl.pubkey(bare(chain.treasury_account))
    mints = [spl.pubkey(asset.mint) for asset in chain.assets]
    nonces = seeds_of(relayer, DURABLE_NONCES_MAX)
    found = {
        **dict.fromkeys(map(str, spl.SET_UP), "a program or a record of the chain itself"),
        **dict.fromkeys(map(str, mints), "a mint"),
        **dict.fromkeys(nonces, "a durable nonce of this service"),
        **{
            str(spl.associated(owner, mint, program)): "a token account of this service"
            for owner in (relayer, treasury)
            for mint in mints
            for program in spl.PROGRAMS
        },
        str(relayer): "the relayer of this service",
        str(treasury): "the treasury of this service",
    }
    return {f"{chain.caip2}:{address}": what for address, what in found.items()}
