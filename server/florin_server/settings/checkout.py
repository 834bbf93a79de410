"""Settings of the payment page: its look, and its links to wallets and explorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from florin_server.domain.payments.return_links import is_app_scheme, is_return_target

# the page's own link in the URL of a wallet: percent-encoded, or plain behind a path
_LINKS: Final = ("{url}", "{place}")

Color = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]

WalletName = Annotated[str, Field(min_length=1, max_length=40)]
WebAddress = Annotated[str, Field(pattern=r"^https://[^\s\"'<>\\]+$", max_length=500)]


def _check_link(url: str) -> str:
    if sum(url.count(placeholder) for placeholder in _LINKS) == 0:
        raise ValueError("it contains neither {url} nor {place}, so the payment link is missing")
    return url


def _check_transaction(url: str) -> str:
    if not url.startswith("https://") or url.count("{tx}") != 1:
        raise ValueError("it is not an https URL with the placeholder {tx} for the transaction")
    return url


def _check_public_node(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.password:
        raise ValueError("it is not an https URL without user name and password, and buyers see it")
    return url


def _check_app_scheme(scheme: str) -> str:
    if not is_app_scheme(scheme):
        raise ValueError("it is not the URL scheme of an app, in lower case and without a colon")
    return scheme


def _check_return_target(target: str) -> str:
    if not is_return_target(target):
        raise ValueError(
            "it is neither the URL scheme of an app, as in com.shop.app, nor an https origin, as "
            "in https://shop.example"
        )
    return target


class WalletLink(BaseModel):
    """A wallet app that opens web pages, and pays on them."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(
        min_length=1, max_length=40, description="name of the app, as its users know it"
    )
    url: Annotated[str, AfterValidator(_check_link)] = Field(
        pattern=r"^https://[^\s\"'<>\\]+$",
        max_length=500,
        description="link that opens the payment page in the app: `{url}` is the payment link, "
        "percent-encoded, `{place}` is the payment link without `https://`",
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


_DOWNLOADS: Final[Mapping[str, str]] = {
    "MetaMask": "https://metamask.io/download/",
    "Phantom": "https://phantom.com/download",
    "Rabby": "https://rabby.io/",
}


class CheckoutSettings(BaseModel):
    """The look of the payment page, and its links to wallets and explorers."""

    model_config = ConfigDict(frozen=True)

    accent: Color | None = Field(
        default=None,
        description="color of buttons, `#rrggbb`; Florin makes it darker or lighter until its "
        "text is readable",
    )
    accents: dict[str, Color] = Field(
        default={}, description="the same settings for single merchants, by merchant id"
    )
    wallets: tuple[WalletLink, ...] = Field(
        default=_WALLETS,
        max_length=12,
        description="wallet apps in which phones can open the payment page",
    )
    downloads: dict[WalletName, WebAddress] = Field(
        default=dict(_DOWNLOADS),
        max_length=6,
        description="pages (https) where buyers without a wallet get one for their browser, by "
        "name of the wallet",
    )
    explorers: dict[str, Annotated[str, AfterValidator(_check_transaction)]] = Field(
        default=dict(_EXPLORERS),
        description="block explorer URL of a transaction `{tx}`, by chain (CAIP-2); without it, "
        "pages show the hash only",
    )
    nodes: dict[str, Annotated[str, AfterValidator(_check_public_node)]] = Field(
        default={},
        description="public nodes (https), by chain (CAIP-2), for wallets that add an unknown "
        "chain; every buyer sees them, so never set a URL that contains a key",
    )
    return_schemes: tuple[Annotated[str, AfterValidator(_check_app_scheme)], ...] = Field(
        default=("metamask", "phantom", "solflare", "trust"),
        max_length=50,
        description="URL schemes of apps to which `returnUrl` of a payment link can lead, besides "
        "https and schemes with a dot",
    )
    return_targets: dict[str, tuple[Annotated[str, AfterValidator(_check_return_target)], ...]] = (
        Field(
            default={},
            description="the only apps (URL schemes) and sites (https origins) to which "
            "`returnUrl` can lead for single merchants, by merchant id",
        )
    )
    test_panel: bool | None = Field(
        default=None,
        description="test panel on pages of test payments, with a test wallet, every outcome and "
        "the clock; anyone with the link can use it. Unset: on while test accounts "
        "exist (`demo`)",
    )
