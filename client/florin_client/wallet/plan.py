"""The plan of an option: parsed once, shown, and signed as parsed.

A server can lie. A plan exists only for steps that together take exactly the option's amount of the
option's asset out of the option's account: one step that pays, and before it the allowance that
this step needs. All other steps are refused before a key signs them. A plain transfer has a plan if
its receiver follows from the payment's route.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from florin_client.wallet import evm_steps, solana_steps
from florin_client.wallet.actions import AnyAction, WalletError, steps_of
from florin_client.wallet.evm_steps import (
    ContractPayment,
    Permit2Transfer,
    SignedApproval,
    TokenApproval,
    TransferAuthorization,
)
from florin_client.wallet.solana_steps import SolanaPayment
from florin_client.wallet.terms import AnyOption, OptionTerms, parse_option
from florin_client.wallet.transfers import (
    FORWARDER,
    AddressTransfer,
    AnyPayAddress,
    parse_pay_address,
)
from florin_client.wallet.x402_steps import (
    AddressAuthorization,
    AddressPermit,
    MerchantTransfer,
    X402Step,
)

PlanStep: TypeAlias = (
    TokenApproval
    | SignedApproval
    | TransferAuthorization
    | Permit2Transfer
    | ContractPayment
    | AddressTransfer
    | SolanaPayment
    | X402Step
)

# payments last 30 days at most by default; a signature valid for longer serves another purpose
DEADLINE_MAX_S: Final = 31 * 86_400
# lifetime of 150 blocks, at the rate of November 2026
_BLOCKHASH_LIFETIME: Final = "for about half a minute"
# two allowances, and the payment
_STEPS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class PaymentPlan:
    """The steps of an option, in order; the last step pays, and all others are allowances for it.

    `deadline` is the expiry of the signature, or of the address that receives a plain transfer, in
    Unix seconds. It is None on Solana, where a
    transaction expires with its blockhash, in about half a minute, or with its durable nonce.
    """

    terms: OptionTerms
    steps: tuple[PlanStep, ...]
    deadline: int | None

    @property
    def sends_transactions(self) -> bool:
        """Return True if the account sends transactions itself, and pays their fees."""
        return any(step.method == "eth_sendTransaction" for step in self.steps)

    def describe(self, amount: Callable[[int], str] | None = None) -> list[str]:
        """Return a sentence for each step; `amount` formats minor units of the option's asset."""
        asset = self.terms.token or self.terms.asset
        text = amount or (lambda value: f"{value} of {asset}")
        until = "" if self.deadline is None else f" until {_format_time(self.deadline)}"
        return [_describe_step(step, text, until) for step in self.steps]


def plan_payment(
    option: AnyOption, actions: Iterable[AnyAction], *, now: float | None = None
) -> PaymentPlan:
    """Parse an option and its actions into a plan; WalletError unless they fit each other.

    `now` is the time in Unix seconds, by default this machine's. Actions are those of the option,
    with what its `build` actions resolved to.
    """
    terms = parse_option(option)
    steps = steps_of(actions)
    if not 1 <= len(steps) <= _STEPS_MAX:
        raise WalletError(f"an option has 1 to {_STEPS_MAX} steps; this option has {len(steps)}")
    for step in steps:
        if step.chain_id != terms.chain_id:
            raise WalletError(
                f"a step is on {step.chain_id[:80]!r}, but the option is on {terms.chain_id}"
            )
    if not terms.is_evm:
        if len(steps) != 1:
            raise WalletError(f"an option on Solana has 1 step; this option has {len(steps)}")
        return PaymentPlan(terms, (solana_steps.parse_step(steps[0], terms),), None)
    parsed = [evm_steps.parse_step(step, terms) for step in steps]
    approvals = [step for step in parsed if isinstance(step, TokenApproval | SignedApproval)]
    payments = [step for step in parsed if not isinstance(step, TokenApproval | SignedApproval)]
    if len(payments) != 1 or parsed[-1] is not payments[0]:
        raise WalletError(f"{len(payments)} steps pay, but only the last step must pay")
    evm_steps.check_approvals(approvals, payments[0])
    payment = payments[0]
    deadline = payment.deadline if isinstance(payment, Permit2Transfer) else payment.valid_before
    if deadline > (time.time() if now is None else now) + DEADLINE_MAX_S:
        raise WalletError("the signature would stay valid for longer than any payment")
    return PaymentPlan(terms, tuple(parsed), deadline)


def plan_transfer(
    pay_address: AnyPayAddress,
    account: str,
    *,
    forwarder: str = FORWARDER,
    now: float | None = None,
) -> PaymentPlan:
    """Return the plan of a plain transfer to a payment's address, from an account (CAIP-10).

    It sends exactly what is missing there. WalletError unless the address follows from its route by
    `forwarder`, by default Florin's contract, and the route is for the asset and the amount of
    `pay_address`. `now` is the time in Unix seconds, by default this machine's.
    """
    checked = parse_pay_address(pay_address, account, forwarder=forwarder)
    current = time.time() if now is None else now
    if checked.deadline <= current:
        raise WalletError("the time for the address is over: money would come back")
    if checked.transfer.route.valid_before > current + DEADLINE_MAX_S:
        raise WalletError("the address would keep money for longer than any payment")
    return PaymentPlan(checked.terms, (checked.transfer,), checked.deadline)


def _describe_step(step: PlanStep, text: Callable[[int], str], until: str) -> str:
    if isinstance(step, TokenApproval):
        return f"lets {step.spender} take {text(step.amount)}, from now on"
    if isinstance(step, SignedApproval):
        return f"lets {step.spender} take {text(step.amount)}, once this is submitted{until}"
    if isinstance(step, TransferAuthorization):
        return f"lets {step.receiver} take {text(step.amount)} once{until}"
    if isinstance(step, Permit2Transfer):
        return f"lets {step.spender} take {text(step.amount)} once by Permit2{until}"
    if isinstance(step, ContractPayment):
        fee = f", of which {text(step.fee)} to {step.fee_receiver}" if step.fee else ""
        return f"pays {text(step.amount)} to {step.receiver}{fee}, by a call of {step.contract}"
    if isinstance(step, AddressTransfer | AddressAuthorization | AddressPermit):
        return _describe_transfer(step, text, until)
    if isinstance(step, MerchantTransfer):
        return (
            f"pays {text(step.amount)} to {step.receiver}, with the memo {step.memo}; "
            f"{step.payment.fee_payer} pays for the transaction, which is good "
            f"{_BLOCKHASH_LIFETIME}"
        )
    receivers = " and ".join(f"{text(amount)} to {place}" for place, amount in step.receivers)
    lasts = "as long as the payment" if step.uses_durable_nonce else _BLOCKHASH_LIFETIME
    return f"pays {receivers}; {step.fee_payer} pays for the transaction, which is good {lasts}"


def _describe_transfer(
    step: AddressTransfer | AddressAuthorization | AddressPermit,
    text: Callable[[int], str],
    until: str,
) -> str:
    route = step.route
    fee = f", of which {text(route.fee)} to {route.fee_to}" if route.fee else ""
    if isinstance(step, AddressTransfer):
        sends, address = "sends", step.address
    else:
        sends, address = "lets the server send", step.receiver
    if isinstance(step, AddressPermit):
        sends = "lets the server send by Permit2"
    return (
        f"{sends} {text(step.amount)} to {address}, which passes {text(route.value)} on to "
        f"{route.dest}{fee}{until}; other money goes to {route.home}"
    )


def _format_time(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
