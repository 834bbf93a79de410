"""What every option is made of, whatever its chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from florin_server.domain.payments.option_names import option_id
from florin_server.domain.payments.payment import Action, Build, Option, Payment
from florin_server.pricing.prices import Quote
from florin_server.rails.types import Asset, Split


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
        return option_id(
            (
                self.payment.id,
                self.payer,
                self.asset.id,
                str(self.value),
                *contracts,
                self.split.dest,
                self.split.fee_to or "",
                str(self.split.fee),
                str(self.split.settled),
                *steps,
                *((f"until {self.quote.expires_at}",) if self.quote else ()),
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
