"""What every option is made of, whatever its chain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from florin_server.domain.payments.option_names import option_id, parts
from florin_server.domain.payments.payment import Action, Build, Option, Payment
from florin_server.pricing.prices import Quote
from florin_server.rails.types import Asset, Commitment, Split


@dataclass(frozen=True, slots=True)
class Offered:
    """A value of an asset, in minor units, that an account may pay for a payment.

    `account` is the payer as it was written, `payer` its canonical CAIP-10.
    """

    payment: Payment
    account: str
    payer: str
    asset: Asset
    value: int
    split: Split
    now_us: int
    quote: Quote | None = None

    def id(self, *, contracts: Sequence[str] = (), steps: Sequence[str] = ()) -> str:
        """The option's id: it stands for all of it, with the contracts and steps of a chain."""
        split = self.split
        return option_id(
            parts(
                self.payment.id,
                self.payer,
                self.asset.id,
                self.value,
                contracts,
                split.dest,
                split.fee_to,
                split.fee,
                settled=split.settled,
                steps=(*steps, *_until(self.quote.expires_at if self.quote else None)),
            )
        )

    def option(
        self,
        chosen: str,
        *,
        eta_s: int,
        actions: tuple[Action | Build, ...],
        terms: Mapping[str, object],
        method: str | None = None,
        reference: str | None = None,
    ) -> Option:
        """The option with that id; without a method it is paid in the asset's own way."""
        quote = self.quote
        return Option(
            id=chosen,
            payment_id=self.payment.id,
            account=self.account,
            payer=self.payer,
            chain_id=self.asset.chain_id,
            asset=self.asset.id,
            value=self.value,
            eta_s=eta_s,
            expires_at=quote.expires_at if quote else None,
            method=method or self.asset.method,
            actions=actions,
            terms={**terms, **({"quote": quote.stored()} if quote else {})},
            created_at_us=self.now_us,
            reference=reference,
        )


def commitment(
    option: Option,
    split: Split,
    contract: str | None,
    ways: Sequence[Sequence[str]],
    spellings: Callable[[str], Sequence[str]],
) -> Commitment:
    """What an option's id was made of; without steps if nothing fits.

    `ways` are the steps that it may have had, `spellings` the ways to write an account, of which
    terms keep one.
    """
    contracts = () if contract is None else (contract,)
    takers = (None,) if split.fee_to is None else spellings(split.fee_to)
    for steps, dest, fee_to in itertools.product(ways, spellings(split.dest), takers):
        told = (*steps, *_until(option.expires_at))
        made_of = parts(
            option.payment_id,
            option.payer,
            option.asset,
            option.value,
            contracts,
            dest,
            fee_to,
            split.fee,
            settled=split.settled,
            steps=told,
        )
        if option_id(made_of) == option.id:
            return Commitment(contract, dest, fee_to, told)
    return Commitment(contract, split.dest, split.fee_to, None)


def _until(quoted_to: int | None) -> tuple[str, ...]:
    return () if quoted_to is None else (f"until {quoted_to}",)
