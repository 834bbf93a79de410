"""Apply the buyer's limits: for the payment, and for the fees of its transactions."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NoReturn

from florin_client.wallet import WalletError, default_max_fee
from florin_client.wallet.terms import OptionTerms

from florin_server.cli.operation import usage_error
from florin_server.cli.wallet.assets import KnownAsset
from florin_server.domain.money import CURRENCIES

_AMOUNT = re.compile(r"([0-9]{1,60}(?:\.[0-9]{1,36})?) +(\S{1,200})")
_FEE = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,36})?)(?: +[A-Za-z]{1,12})?")


def check_maximum(maximum: str | None, terms: OptionTerms, asset: KnownAsset) -> None:
    """Raise WalletError if an option costs more than --max; end the program if it is not valid.

    --max is in the asset itself (its symbol, or minor units and the CAIP-19 id), or in the currency
    to which the registry pegs the asset. The server has no say in the value of an asset.
    """
    if maximum is None:
        return
    match = _AMOUNT.fullmatch(maximum.strip())
    if match is None:
        usage_error(
            f"{maximum[:80]!r} is not an amount for --max; write 12.50 USD, 12.50 USDC, or minor "
            "units and a CAIP-19 id"
        )
    number, unit = match[1], match[2]
    if "/" in unit:
        if "." in number:
            usage_error("--max with a CAIP-19 id must be a whole number of minor units")
        if unit.removeprefix("caip19/").lower() != asset.id.lower():
            raise WalletError(f"--max is in {unit}, but the option costs {asset.id}")
        allowed = int(number)
    else:
        # a token with the name of a currency has its value only if the registry says so
        names = {asset.peg} if unit.upper() in CURRENCIES else {(asset.symbol or "").upper()}
        if unit.upper() not in names or asset.decimals is None:
            _fail_not_comparable(unit, asset)
        allowed = _to_minor_units(number, asset.decimals)
    if terms.amount > allowed:
        raise WalletError(f"the option costs {asset.format(terms.amount)}, but --max is {maximum}")


def get_fee_limit(maximum: str | None, terms: OptionTerms) -> int:
    """Return the fee limit of the payment's transactions, in minor units of the native coin."""
    if maximum is None:
        return default_max_fee(terms.chain_id, terms.amount if terms.token is None else None)
    match = _FEE.fullmatch(maximum.strip())
    if match is None:
        usage_error(
            f"{maximum[:80]!r} is not an amount for --max-fee; write an amount of the native coin, "
            "such as 0.01"
        )
    # only on EVM chains does the buyer's account pay fees
    return _to_minor_units(match[1], 18)


def _to_minor_units(number: str, decimals: int) -> int:
    """Return an amount in minor units, rounded down; exact for every size."""
    return int(Decimal(f"{number}E{decimals}"))


def _fail_not_comparable(unit: str, asset: KnownAsset) -> NoReturn:
    symbol = asset.symbol or asset.id
    raise WalletError(
        f"--max is in {unit}, but the option costs {asset.id}: give --max in {symbol}, or choose "
        "another option with --option"
    )
