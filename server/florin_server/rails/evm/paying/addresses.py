"""Addresses of their own for payments, to which any wallet or exchange can send."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from florin_server.domain.caip import format_checksum_address
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.payments.option_names import derive_reference
from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.evm.forwarder import build_forward_sample
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.paying.terms import (
    ZERO_ADDRESS,
    EvmOptionTerms,
    list_forward_steps,
    to_address,
)
from florin_server.rails.evm.sending.data_fees import DataFeeReader
from florin_server.rails.evm.sending.fees import RecentFeeCache
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.option_offer import OptionOffer, OptionOutline
from florin_server.rails.types import FORWARD_METHOD, Asset

# A whole transaction that forwards one payment, with a fee and the calldata. Measured: 115,000, and
# 137,000 if a receiver is new to the token.
_FORWARD_GAS: Final = 140_000
_WEI_PER_UNIT: Final = 10**18
# the bytes of such a transaction are much alike: most are addresses, numbers and zeros
_FORWARD_SAMPLE: Final = build_forward_sample()


class EvmPaymentAddresses:
    """Implement the PaymentAddresses protocol."""

    method = FORWARD_METHOD

    def __init__(
        self,
        chain: EvmChainSettings,
        forwarder: ForwarderSettings,
        fees: RecentFeeCache,
        shares: GasShares,
        data_fees: DataFeeReader,
    ) -> None:
        self._chain = chain
        self._forwarder = forwarder
        self._fees = fees
        self._shares = shares
        self._data_fees = data_fees

    @property
    def watched_max(self) -> int:
        """Return how many addresses of the chain can be watched at a time."""
        return self._forwarder.hot_max

    @property
    def sweep_factor(self) -> int:
        """Return how many times its cost money must be worth to be moved home."""
        return self._forwarder.sweep_factor

    @property
    def home(self) -> str:
        """Return the CAIP-10 account that receives money which is not part of a payment."""
        return f"{self._chain.caip2}:{self._chain.home}"

    def get_min_units(self, asset: Asset) -> int:
        """Return the smallest payment by the settings, in minor units; 0 without a bound."""
        return 0 if asset.peg is None else self._forwarder.get_min_units(asset.decimals)

    async def estimate_cost(self) -> Fraction:
        """Return the cost that a payment must be worth, in whole units of the native asset.

        It is the fee of forwarding at recent prices, with a rollup's fee for its data, times
        `sweep_factor`.
        """
        fees = await self._fees.get_recent()
        # offers are twice the base fee
        price = (fees.max_fee - fees.tip) // 2 + fees.tip
        data_fee = await self._data_fees.get_recent(_FORWARD_SAMPLE)
        gas = _FORWARD_GAS + self._shares.address_surcharge
        cost_wei = (price * gas + data_fee) * self._forwarder.sweep_factor
        # a fee token's minor units are worth as many wei as its decimals lack to 18
        return Fraction(cost_wei, _WEI_PER_UNIT)

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build an option whose payer is its own address; equal offers give equal addresses.

        The payer of the offer is not used.
        """
        chain, asset, quote, split = self._chain, offer.asset, offer.quote, offer.split
        contract = self._forwarder.address
        account = f"{chain.caip2}:{contract}"
        payable = replace(offer.payable, payer=account)
        named = replace(offer, account=account, payable=payable)
        option_id = named.compute_id(contracts=[contract], steps=list_forward_steps(chain.home))
        # no price outlives its quote
        grace_s = 0 if asset.peg is None or quote is not None else self._forwarder.grace_s
        route = ForwardRoute(
            chain_id=chain.chain_id,
            forwarder=contract,
            token=asset.address,
            value=offer.value,
            valid_before=(quote or offer.payment).expires_at + grace_s,
            dest=to_address(split.dest),
            fee_to=to_address(split.fee_to) if split.fee_to is not None else ZERO_ADDRESS,
            fee=split.fee,
            ref=derive_reference(offer.payment.salt, option_id),
            home=chain.home,
        )
        terms = EvmOptionTerms(
            route=route,
            nonce=route.compute_nonce(),
            settled=split.settled,
            domain_name=asset.domain_name,
            domain_version=asset.domain_version,
        )
        address = route.compute_address()
        option = named.build_option(
            OptionOutline(option_id, chain.eta_s),
            method=FORWARD_METHOD,
            actions=(),
            terms=terms.to_json(),
            reference="0x" + route.ref.hex(),
        )
        return replace(
            option,
            account=f"{chain.caip2}:{format_checksum_address(address)}",
            payer=f"{chain.caip2}:{address}",
        )

    def get_route(self, option: PaymentOption) -> ForwardRoute:
        """Return the route that gives an option its address."""
        route = EvmOptionTerms.from_option(option).route
        if not isinstance(route, ForwardRoute):
            raise TypeError(f"option {option.id} has no address of its own")
        return route

    def format_uri(self, option: PaymentOption, value: int) -> str:
        """Return the link by which wallets send an amount of minor units (EIP-681)."""
        route = self.get_route(option)
        address = option.account.rpartition(":")[2]
        if route.token == ZERO_ADDRESS:
            return f"ethereum:{address}@{route.chain_id}?value={value}"
        token = format_checksum_address(route.token)
        transfer = f"address={address}&uint256={value}"
        return f"ethereum:{token}@{route.chain_id}/transfer?{transfer}"
