"""The asset that pays each order, and the currency of its payment."""

from __future__ import annotations

from florin_sandbox.devnet.evm import DEVNET

from tests.chaos.chaos_service import ETHER, EUR, USD
from tests.chaos.plan import Order, Way
from tests.support.solana import ASSETS

# the unit of amounts on the chain of an asset, and of a cent of a payment
_UNITS = {USD: "USD", EUR: "EUR", ETHER: "GBP", ASSETS[0]: "USD", ASSETS[1]: "USD"}
_ASSETS = {
    Way.EIP3009: USD,
    Way.PERMIT2: EUR,
    Way.DIRECT: USD,
    Way.COIN: ETHER,
    Way.TOKEN: ASSETS[0],
    Way.TOKEN_2022: ASSETS[1],
    Way.X402: USD,
}
_AT_ADDRESSES = (USD, EUR, ETHER)
TOKENS = {USD: DEVNET.token.address, EUR: DEVNET.euro.address}
# more than a transfer home costs, so that it goes back
WORTH = {USD: 2_500_000, EUR: 2_500_000, ETHER: 5 * 10**15}


def get_asset(order: Order) -> str:
    """Return the asset (CAIP-19) that pays an order; at addresses all take turns."""
    if order.way is Way.ADDRESS:
        return _AT_ADDRESSES[order.variant % len(_AT_ADDRESSES)]
    return _ASSETS[order.way]


def get_unit(order: Order) -> str:
    """Return the currency of an order's payment."""
    return _UNITS[get_asset(order)]
