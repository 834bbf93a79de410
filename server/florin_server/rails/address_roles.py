"""The roles of payments' own addresses, on chains that can have them.

Every coroutine can raise RailUnavailable, which is never a negative answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import (
    AddressActivity,
    AddressSweep,
    Asset,
    SignedTransaction,
)


class DepositReader(Protocol):
    """Money at payments' own addresses, which any sender can fill by a plain transfer.

    Addresses are bare and lower-case. Only tokens of the settings count, and the coin.
    """

    @property
    def assets(self) -> Sequence[str]:
        """Return the assets that count (CAIP-19)."""

    @property
    def exchanges(self) -> frozenset[str]:
        """Return the accounts of exchanges by the settings, to which nothing is returned."""

    def get_asset(self, token: str) -> str:
        """Return the asset (CAIP-19) of a token's address, the zero address for the coin."""

    async def read_activity(self, addresses: Sequence[str], first: int) -> AddressActivity:
        """Return what moved to and from addresses since a block, without the coin's arrivals.

        Long ranges are read in parts: continue after `last`. Read again from above `final`.
        """

    async def find_coin_deposits(
        self, balances: Mapping[str, int], activity: AddressActivity
    ) -> list[Deposit]:
        """Return the coin that arrived at addresses in the activity's range, the oldest first.

        `balances` are the coin balances of the addresses before the range; addresses that the
        activity did not ask for are not allowed. Coin that contracts sent has no sender and no
        transaction; the balance alone proves it.
        """

    async def read_balances(
        self, asset_addresses: Collection[tuple[str, str]], block: int
    ) -> dict[tuple[str, str], int]:
        """Return balances by address and asset (CAIP-19) at a block; one batched read.

        Other assets of the chain than those of the settings are read too.
        """

    async def find_contracts(self, addresses: Collection[str]) -> frozenset[str]:
        """Return which addresses are contracts: they may credit no returned money to anyone.

        A key that delegates to code (EIP-7702) still has its money, and is none.
        """


class AddressSweeper(Protocol):
    """Transactions of ours that send home what payments' addresses still hold.

    Anyone can send such a transaction; it cannot move what can still be paid.
    """

    async def estimate_cost(self) -> int:
        """Return the usual cost of one address and asset, in minor units of the native asset."""

    async def check(self, sweeps: Sequence[AddressSweep]) -> list[bool]:
        """Return for each sweep whether it would move something if it were sent now."""

    def select_first(self, sweeps: Sequence[AddressSweep]) -> Sequence[AddressSweep]:
        """Return as many of the first sweeps as one transaction can make."""

    async def sign(
        self, sender: str, nonce: int, sweeps: Sequence[AddressSweep]
    ) -> SignedTransaction:
        """Sign, with a relayer's key, the single transaction that makes the sweeps."""


class PaymentAddresses(Protocol):
    """Addresses of their own for payments, to which any wallet or exchange can send.

    Such an address has no key: what comes there is forwarded to the receivers of the option, or
    goes to an account of the operator.
    """

    @property
    def watched_max(self) -> int:
        """Return how many addresses of the chain can be watched at a time."""

    def get_min_units(self, asset: Asset) -> int:
        """Return the smallest payment by the settings, in minor units; 0 without a bound."""

    @property
    def sweep_factor(self) -> int:
        """Return how many times its cost money must be worth to be moved home."""

    @property
    def home(self) -> str:
        """Return the CAIP-10 account that receives money which is not part of a payment."""

    async def estimate_cost(self) -> Fraction:
        """Return the cost that a payment must be worth, in whole units of the native asset."""

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build an option whose payer is its own address; equal offers give equal addresses.

        The payer of the offer is not used.
        """

    def get_route(self, option: PaymentOption) -> ForwardRoute:
        """Return the route that gives an option its address."""

    def format_uri(self, option: PaymentOption, value: int) -> str:
        """Return the link by which wallets send an amount of minor units (EIP-681)."""
