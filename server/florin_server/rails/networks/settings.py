"""Settings that chains of every kind, their coins and tokens share.

They are fields and not a base class, so that each kind lists them in its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from florin_server.domain.caip import parse_account
from florin_server.rails.networks.network import NetworkToken, PublicNetwork
from florin_server.rails.networks.registry import is_test_network, list_registered_tokens

Text = Annotated[str, Field(min_length=1, max_length=100)]

# of a token, or a coin
Name = Annotated[Text, Field(description="name that buyers see")]
Symbol = Annotated[Text, Field(description="short name that buyers see")]
Peg = Annotated[
    str | None,
    Field(
        pattern=r"^[A-Z]{3}$",
        description="currency (ISO 4217) of which it is worth one unit; unset: it needs a rate",
    ),
]
Icon = Annotated[str | None, Field(description="picture for wallets to show")]

# of a chain
ChainName = Annotated[Text, Field(description="name that buyers and commands use")]
Live = Annotated[
    bool, Field(description="whether its money is real, so that it serves live data only")
]
Treasury = Annotated[
    str,
    Field(
        description="account that receives fees, and for merchants without a destination; an "
        "address or CAIP-10, never a relayer"
    ),
]
TreasuryKeystore = Annotated[
    Path | None,
    Field(description="the treasury's key; without it Florin pays nothing out of the treasury"),
]
EtaS = Annotated[
    int, Field(ge=0, description="seconds until a payment is final, which wallets show")
]
ChainIcon = Annotated[str | None, Field(description="picture of the network")]
RegisteredTokens = Annotated[
    tuple[str, ...], Field(description="tokens of the registry, by symbol")
]


def complete_settings(
    settings: dict[str, Any],
    network: PublicNetwork | None,
    defaults: dict[str, Any],
    to_token_settings: Callable[[NetworkToken], dict[str, Any]],
) -> dict[str, Any]:
    """Return a chain's settings, completed by defaults and by the tokens it names.

    `to_token_settings` returns a token's settings that only this kind of chain has. Raise
    ValueError for a token that the registry does not have, or lacks data of.
    """
    tokens = [
        {
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
            **to_token_settings(token),
        }
        for token in list_registered_tokens(network, settings.get("tokens", ()))
    ]
    return {**defaults, **settings, "assets": [*settings.get("assets", ()), *tokens]}


def require_consistent(
    chain_id: str, *, live: bool, faucet: bool, treasury: str, tokens: Sequence[str]
) -> None:
    """Raise ValueError if the settings of a chain (CAIP-2) contradict each other.

    `treasury` is in its written form, `tokens` are addresses.
    """
    if live and faucet:
        raise ValueError("a live chain has no faucet")
    if live and is_test_network(chain_id):
        raise ValueError("a test network's money is worth nothing: it cannot be live")
    if len(set(tokens)) != len(tokens):
        raise ValueError("a token is listed twice")
    if ":" in treasury and str(parse_account(treasury).chain) != chain_id:
        raise ValueError("the treasury is on another chain")
