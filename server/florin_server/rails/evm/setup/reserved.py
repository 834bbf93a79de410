"""Accounts of an EVM chain that belong to this service, or cannot use money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.rails.evm.gas_money import FEE_MANAGER
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.settings import EvmChainSettings


def list_reserved_accounts(chain: EvmChainSettings, senders: Sequence[str]) -> Mapping[str, str]:
    """Return a name for each, by CAIP-10; our wallets come last, so that their names win.

    The result depends on the settings alone: a chain that does not answer changes nothing.
    """
    contracts = {
        ZERO_ADDRESS: "the zero address",
        PERMIT2: "the Permit2 contract",
        chain.multicall3: "the Multicall3 contract",
        DEPLOYER: "the deployer of contracts",
        **dict.fromkeys((asset.address for asset in chain.assets), "a token contract"),
        **dict.fromkeys(chain.factories, "a factory of accounts"),
        **dict.fromkeys(filter(None, [chain.opener]), "the opener contract"),
        **dict.fromkeys(chain.settlers, "a settlement contract of this service"),
    }
    if chain.fee_token is not None:
        contracts |= {FEE_MANAGER: "the fee manager", chain.fee_token: "a token contract"}
    if chain.forwarder is not None:
        contracts[chain.home] = "the account of money that is not part of a payment"
    own = dict.fromkeys(senders, "a relayer of this service")
    accounts = {f"{chain.caip2}:{address}": what for address, what in (contracts | own).items()}
    return accounts | {chain.treasury_account: "the treasury of this service"}
