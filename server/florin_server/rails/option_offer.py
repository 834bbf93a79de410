"""The parts of an option on every chain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from florin_server.domain.payments.option_names import build_option_id_parts, derive_option_id
from florin_server.domain.payments.payment import (
    Action,
    BuildAction,
    Payment,
    PaymentOption,
)
from florin_server.rails.pricing.prices import PriceQuote
from florin_server.rails.types import Asset, OptionCommitment, PayableAsset, Split


class OptionOutline(NamedTuple):
    """The id of an offer's option, and the seconds until its payment is usually final."""

    id: str
    eta_s: int


@dataclass(frozen=True, slots=True)
class OptionOffer:
    """A value of an asset, in minor units, with which an account can pay a payment.

    `account` is the payer as it was written.
    """

    payment: Payment
    account: str
    payable: PayableAsset
    asset: Asset
    value: int
    split: Split
    now_us: int
    quote: PriceQuote | None = None

    @property
    def payer(self) -> str:
        """Return the payer's canonical CAIP-10."""
        return self.payable.payer

    def compute_id(self, *, contracts: Sequence[str] = (), steps: Sequence[str] = ()) -> str:
        """Return the option's id, derived from all of it and a chain's contracts and steps."""
        split = self.split
        return derive_option_id(
            build_option_id_parts(
                self.payment.id,
                self.payer,
                self.asset.id,
                self.value,
                contracts,
                split.dest,
                split.fee_to,
                split.fee,
                settled=split.settled,
                steps=(*steps, *list_expiry_steps(self.quote.expires_at if self.quote else None)),
            )
        )

    def build_option(
        self,
        outline: OptionOutline,
        *,
        actions: tuple[Action | BuildAction, ...],
        terms: Mapping[str, object],
        method: str | None = None,
        reference: str | None = None,
    ) -> PaymentOption:
        """Build the option of an outline; without `method` it is paid by the asset's method."""
        quote = self.quote
        return PaymentOption(
            id=outline.id,
            payment_id=self.payment.id,
            account=self.account,
            payer=self.payer,
            chain_id=self.asset.chain_id,
            asset=self.asset.id,
            value=self.value,
            eta_s=outline.eta_s,
            expires_at=quote.expires_at if quote else None,
            method=method or self.asset.method,
            actions=actions,
            terms={**terms, **({"quote": quote.to_json()} if quote else {})},
            created_at_us=self.now_us,
            reference=reference,
        )


def rebuild_commitment(
    option: PaymentOption,
    split: Split,
    contract: str | None,
    step_variants: Sequence[Sequence[str]],
    list_spellings: Callable[[str], Sequence[str]],
) -> OptionCommitment:
    """Return the inputs of an option's id; without steps if no candidate matches.

    `step_variants` are the steps that it may have had. `list_spellings` returns the spellings of
    an account, of which terms keep one.
    """
    contracts = () if contract is None else (contract,)
    takers = (None,) if split.fee_to is None else list_spellings(split.fee_to)
    for steps, dest, fee_to in itertools.product(step_variants, list_spellings(split.dest), takers):
        all_steps = (*steps, *list_expiry_steps(option.expires_at))
        made_of = build_option_id_parts(
            option.payment_id,
            option.payer,
            option.asset,
            option.value,
            contracts,
            dest,
            fee_to,
            split.fee,
            settled=split.settled,
            steps=all_steps,
        )
        if derive_option_id(made_of) == option.id:
            return OptionCommitment(contract, dest, fee_to, all_steps)
    return OptionCommitment(contract, split.dest, split.fee_to, None)


def list_expiry_steps(quoted_to: int | None) -> tuple[str, ...]:
    """Return the step of an option's id that says until when its price holds, if it lapses."""
    return () if quoted_to is None else (f"until {quoted_to}",)
