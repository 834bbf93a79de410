"""What the operator tells alike about chains of every kind, their coins and tokens.

Fields for the settings of a kind, and no base of them: each kind tells them in its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from florin_server.domain.caip import parse_account
from florin_server.rails.networks.network import Network, Token
from florin_server.rails.networks.registry import is_test_network, registered

Text = Annotated[str, Field(min_length=1, max_length=100)]

# of a token, or a coin
Name = Annotated[Text, Field(description="what buyers read")]
Symbol = Annotated[Text, Field(description="what buyers read where there is little room")]
Peg = Annotated[
    str | None,
    Field(
        pattern=r"^[A-Z]{3}$",
        description="currency (ISO 4217) of which one unit is worth one; unset: it needs a rate",
    ),
]
Icon = Annotated[str | None, Field(description="picture that wallets show")]

# of a chain
ChainName = Annotated[Text, Field(description="what buyers and commands call it")]
Live = Annotated[bool, Field(description="its money is real: for live data only")]
Treasury = Annotated[
    str,
    Field(
        description="account that receives fees, and for merchants without a destination; an "
        "address or CAIP-10, never a relayer"
    ),
]
TreasuryKeystore = Annotated[
    Path | None, Field(description="its key; without it nothing is paid out of the treasury")
]
EtaS = Annotated[
    int, Field(ge=0, description="what wallets are told that a payment takes to be final")
]
ChainIcon = Annotated[str | None, Field(description="picture of the network")]
RegisteredTokens = Annotated[
    tuple[str, ...], Field(description="tokens of the registry, by symbol")
]


def with_registered(
    said: dict[str, Any],
    known: Network | None,
    defaults: dict[str, Any],
    token_of: Callable[[Token], dict[str, Any]],
) -> dict[str, Any]:
    """What is said about a chain, completed by defaults and by the tokens it names.

    `token_of` tells what only this kind of chain is told about a token. ValueError for a token
    that the registry does not know, or not well enough.
    """
    tokens = [
        {
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
            **token_of(token),
        }
        for token in registered(known, said.get("tokens", ()))
    ]
    return {**defaults, **said, "assets": [*said.get("assets", ()), *tokens]}


def require_consistent(
    chain_id: str, *, live: bool, faucet: bool, treasury: str, tokens: Sequence[str]
) -> None:
    """ValueError if what is said about a chain (CAIP-2) contradicts itself.

    `treasury` is as it was written, `tokens` are addresses.
    """
    if live and faucet:
        raise ValueError("a live chain has no faucet")
    if live and is_test_network(chain_id):
        raise ValueError("money of a test network is worth nothing: it is not live")
    if len(set(tokens)) != len(tokens):
        raise ValueError("a token is listed twice")
    if ":" in treasury and str(parse_account(treasury).chain) != chain_id:
        raise ValueError("the treasury is on another chain")
