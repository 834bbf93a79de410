"""How the page behind a payment link looks, and what it leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# the page's own link in the address of a wallet: percent-encoded, or bare behind a path
_LINKS: Final = ("{url}", "{place}")

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]


def _with_link(url: str) -> str:
    if sum(url.count(one) for one in _LINKS) == 0:
        raise ValueError("it says nowhere where the payment's link goes: {url} or {place}")
    return url


def _with_transaction(url: str) -> str:
    if not url.startswith("https://") or url.count("{tx}") != 1:
        raise ValueError("it is no https address that says where the transaction goes: {tx}")
    return url


def _public_node(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.password:
        raise ValueError("it is no https address without a name and password: buyers see it")
    return url


class WalletLink(BaseModel):
    """A wallet app that opens web pages, and pays on them."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1, max_length=40, description="as its users know it")
    url: Annotated[str, AfterValidator(_with_link)] = Field(
        pattern=r"^https://[^\s\"'<>\\]+$",
        max_length=500,
        description="opens the app with the page: `{url}` is the payment's link, percent-encoded, "
        "`{place}` the same without `https://`",
    )


_WALLETS: Final = (
    WalletLink(name="MetaMask", url="https://link.metamask.io/dapp/{place}"),
    WalletLink(
        name="Trust Wallet", url="https://link.trustwallet.com/open_url?coin_id=60&url={url}"
    ),
    WalletLink(name="Phantom", url="https://phantom.app/ul/browse/{url}?ref={url}"),
    WalletLink(name="Solflare", url="https://solflare.com/ul/v1/browse/{url}?ref={url}"),
)
_EXPLORERS: Final[Mapping[str, str]] = {
    "eip155:1": "https://etherscan.io/tx/{tx}",
    "eip155:10": "https://optimistic.etherscan.io/tx/{tx}",
    "eip155:56": "https://bscscan.com/tx/{tx}",
    "eip155:137": "https://polygonscan.com/tx/{tx}",
    "eip155:8453": "https://basescan.org/tx/{tx}",
    "eip155:42161": "https://arbiscan.io/tx/{tx}",
    "eip155:11155111": "https://sepolia.etherscan.io/tx/{tx}",
    "eip155:84532": "https://sepolia.basescan.org/tx/{tx}",
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "https://explorer.solana.com/tx/{tx}",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "https://explorer.solana.com/tx/{tx}?cluster=devnet",
}


class CheckoutSettings(BaseModel):
    """How the page behind a payment link looks, and where it leads."""

    model_config = ConfigDict(frozen=True)

    accent: Colour | None = Field(
        default=None,
        description="colour of what buyers press, `#rrggbb`; made darker or lighter until it can "
        "be read",
    )
    accents: dict[str, Colour] = Field(
        default={}, description="the same of single merchants, by their ids"
    )
    wallets: tuple[WalletLink, ...] = Field(
        default=_WALLETS,
        max_length=12,
        description="apps that phones open the page in, where a wallet is at hand",
    )
    explorers: dict[str, Annotated[str, AfterValidator(_with_transaction)]] = Field(
        default=dict(_EXPLORERS),
        description="where people look at a transaction `{tx}`, by chain (CAIP-2); without it they "
        "are told its number only",
    )
    nodes: dict[str, Annotated[str, AfterValidator(_public_node)]] = Field(
        default={},
        description="public nodes (https), by chain (CAIP-2), that wallets are given to add a "
        "chain they do not know: every buyer sees them, so never a node with a key in its address",
    )
    test_panel: bool | None = Field(
        default=None,
        description="on pages of test payments: a test wallet, every outcome, and the clock, for "
        "whoever has the link; unless it is said it is there as long as test accounts are (`demo`)",
    )
