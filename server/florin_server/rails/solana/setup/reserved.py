"""Accounts of a Solana cluster that belong to this service, or cannot use money."""

from __future__ import annotations

from collections.abc import Mapping

from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.sending.durable_nonces import compute_seeds
from florin_server.rails.solana.settings import DURABLE_NONCES_MAX, SolanaChainSettings


def list_reserved_accounts(chain: SolanaChainSettings, relayer: Pubkey) -> Mapping[str, str]:
    """Return a name for each, by CAIP-10.

    The result depends on the settings alone: a cluster that does not answer changes nothing. It
    includes the highest possible number of durable nonces: a lower number in the settings leaves
    the accounts in place.
    """
    treasury = spl.parse_pubkey(to_address(chain.treasury_account))
    mints = [spl.parse_pubkey(asset.mint) for asset in chain.assets]
    nonces = compute_seeds(relayer, DURABLE_NONCES_MAX)
    accounts = {
        **dict.fromkeys(
            map(str, spl.RESERVED_ADDRESSES), "a program or a record of the chain itself"
        ),
        **dict.fromkeys(map(str, mints), "a mint"),
        **dict.fromkeys(nonces, "a durable nonce of this service"),
        **{
            str(
                spl.derive_associated_address(owner, mint, program)
            ): "a token account of this service"
            for owner in (relayer, treasury)
            for mint in mints
            for program in spl.PROGRAMS
        },
        str(relayer): "the relayer of this service",
        str(treasury): "the treasury of this service",
    }
    return {f"{chain.caip2}:{address}": what for address, what in accounts.items()}
