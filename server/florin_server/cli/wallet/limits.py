"""What a buyer allows at most: for the payment, and for the fees of its transactions."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NoReturn

from florin_client.wallet import WalletError, default_max_fee
from florin_client.wallet.terms import OptionTerms

from florin_server.cli.operation import misused
from florin_server.cli.wallet.assets import Asset
from florin_server.domain.money import CURRENCIES

_AMOUNT = re.compile(r"([0-9]{1,60}(?:\.[0-9]{1,36})?) +(\S{1,200})")
_FEE = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,36})?)(?: +[A-Za-z]{1,12})?")


def check_maximum(maximum: str | None, terms: OptionTerms, asset: Asset) -> None:
    """Raise WalletError if an option costs more than --max; end the program if that is no amount.

    --max is in the asset itself (its symbol, or minor units and the CAIP-19 id), or in the currency
    that the asset is worth one of. No server says what an asset is worth.
    """
    if maximum is None:
        return
    found = _AMOUNT.fullmatch(maximum.strip())
    if found is None:
        misused('--max is an amount: "12.50 USD", "12.50 USDC", or minor units and a CAIP-19 id')
    number, unit = found[1], found[2]
    if "/" in unit:
        if "." in number:
            misused("--max in a CAIP-19 id is a whole number of minor units")
        if unit.removeprefix("caip19/").lower() != asset.id.lower():
            raise WalletError(f"--max is in {unit}, and the option costs {asset.id}")
        allowed = int(number)
    else:
        # a token that bears the name of a currency is worth it only if the registry says so
        names = {asset.peg} if unit.upper() in CURRENCIES else {(asset.symbol or "").upper()}
        if unit.upper() not in names or asset.decimals is None:
            _not_comparable(unit, asset)
        allowed = _minor_units(number, asset.decimals)
    if terms.amount > allowed:
        raise WalletError(f"it costs {asset.format(terms.amount)}, and --max is {maximum}")


def fee_limit(maximum: str | None, terms: OptionTerms) -> int:
    """Return the most that a payment's transactions may cost, in minor units of the coin."""
    if maximum is None:
        return default_max_fee(terms.chain_id, terms.amount if terms.token is None else None)
    found = _FEE.fullmatch(maximum.strip())
    if found is None:
        misused('--max-fee is an amount of the chain\'s coin, such as "0.01"')
    # only accounts on EVM chains pay fees of their own
    return _minor_units(found[1], 18)


def _minor_units(number: str, decimals: int) -> int:
    """Return an amount in minor units, rounded down; exact, whatever its size."""
    return int(Decimal(f"{number}E{decimals}"))


def _not_comparable(unit: str, asset: Asset) -> NoReturn:
    known = asset.symbol or asset.id
    raise WalletError(
        f"--max is in {unit}, and the option costs {asset.id}: say --max in {known}, or choose "
        "another option with --option"
    )
