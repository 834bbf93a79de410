"""The plans of payments by x402, checked against what the payment itself takes.

The link of x402 can lie apart from the payment's server. So a way of x402 has a plan only if it is
what the payment takes in another way: at an address that follows from a route, or on Solana, by an
option for the same account.
"""

from __future__ import annotations

import base64
import re
import secrets
import time
from typing import Final

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash, ParseHashError
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_client.wallet import solana_steps
from florin_client.wallet.actions import Step, WalletError
from florin_client.wallet.chains import ChainProcedure, Question
from florin_client.wallet.evm_steps import (
    PERMIT2,
    TRANSFER_TYPE,
    Permit2Transfer,
    TokenApproval,
    TransferAuthorization,
)
from florin_client.wallet.plan import PaymentPlan, plan_transfer
from florin_client.wallet.solana_steps import MEMO_PROGRAM, TOKEN_PROGRAMS, SolanaPayment
from florin_client.wallet.terms import OptionTerms
from florin_client.wallet.transfers import FORWARDER, AddressTransfer, AnyPayAddress
from florin_client.wallet.x402 import PERMIT2_METHOD, SOLANA_METHOD, X402Way
from florin_client.wallet.x402_steps import (
    X402_PROXY,
    AddressAuthorization,
    AddressPermit,
    MerchantTransfer,
)

_NONCE_BYTES: Final = 32
_ALLOWANCE_SELECTOR: Final = "0xdd62ed3e"  # allowance(address,address)
_WORD_HEX = re.compile(r"0x[0-9a-fA-F]{64}")
# a transfer of Token-2022 and a memo need about a half of it; the relayer pays
_COMPUTE_UNITS: Final = 60_000
_COMPUTE_PRICE: Final = 1


def plan_x402(
    way: X402Way,
    pay_address: AnyPayAddress,
    *,
    allowance: int | None = None,
    forwarder: str = FORWARDER,
    now: float | None = None,
) -> PaymentPlan:
    """Return the plan of a payment by x402 on an EVM chain: one signed transfer to an address.

    A way by Permit2 needs the account's approval. If `allowance` is what Permit2 may move (see
    `read_permit2_allowance`), and below the price, the plan begins with transactions that approve
    the price. WalletError unless the address follows from its route by `forwarder`, by default
    Florin's contract, and the way is for the whole price to that address. `now` is the time in Unix
    seconds, by default this machine's.
    """
    terms, current = way.terms, time.time() if now is None else now
    if not terms.is_evm:
        raise WalletError("x402 requires a transfer on Solana, which goes to no address")
    plan = plan_transfer(
        pay_address,
        f"{terms.chain_id}:{terms.account}",
        forwarder=forwarder,
        now=now,
    )
    (transfer,) = plan.steps
    if not isinstance(transfer, AddressTransfer) or plan.deadline is None:
        raise WalletError("the payment has no address for x402")
    if transfer.amount != transfer.route.value:
        raise WalletError("a part of the price has arrived: send what is missing to the address")
    if plan.terms != terms or way.receiver != transfer.address:
        raise WalletError(
            f"x402 requires {terms.amount} of {terms.asset} to {way.receiver}, but the payment's "
            f"address takes {plan.terms.amount} of {plan.terms.asset} at {transfer.address}"
        )
    deadline = min(int(current) + way.timeout_s, plan.deadline)
    if way.method == PERMIT2_METHOD:
        permit = _build_permit(terms, transfer, deadline)
        return PaymentPlan(terms, (*_plan_approvals(terms, allowance), permit), deadline)
    authorization = TransferAuthorization(
        chain_id=transfer.route.chain_id,
        domain_name=way.domain_name,
        domain_version=way.domain_version,
        token=transfer.route.token,
        payer=terms.account,
        receiver=transfer.address,
        amount=transfer.amount,
        valid_before=deadline,
        nonce=secrets.token_bytes(_NONCE_BYTES),
        primary_type=TRANSFER_TYPE,
    )
    step = AddressAuthorization(authorization, transfer.route)
    return PaymentPlan(terms, (step,), deadline)


def plan_x402_transfer(way: X402Way, option_plan: PaymentPlan, blockhash: str) -> PaymentPlan:
    """Return the plan of a payment by x402 on Solana: one signed transfer to the merchant.

    `option_plan` is the plan of the payment's option for the same account and token
    (`plan_payment`). WalletError unless the way takes the same amount to the same merchant, and the
    wallet pays nothing else.
    """
    terms = way.terms
    (payment, *_) = option_plan.steps
    if way.method != SOLANA_METHOD or not isinstance(payment, SolanaPayment):
        raise WalletError("x402 requires no transfer of a token on Solana")
    if option_plan.terms != terms:
        raise WalletError(
            f"x402 requires {terms.amount} of {terms.asset}, but the payment's option takes "
            f"{option_plan.terms.amount} of {option_plan.terms.asset}"
        )
    if terms.account in {way.fee_payer, way.receiver}:
        raise WalletError(f"x402 requires that {terms.account} itself receives, or pays the fee")
    if way.memo in {terms.account, terms.token, way.receiver, way.fee_payer}:
        raise WalletError(f"x402 requires the memo {way.memo}, which names no payment")
    try:
        step = _build_step(way, payment, Hash.from_string(blockhash))
    except (ValueError, ParseHashError):
        raise WalletError("x402 requires a transfer that names what is no address") from None
    signed = solana_steps.parse_step(step, terms)
    return PaymentPlan(terms, (MerchantTransfer(signed, way.receiver, way.memo),), None)


def read_permit2_allowance(terms: OptionTerms) -> ChainProcedure[int]:
    """Return how many minor units of the token Permit2 may move for the account."""
    words = "".join(address[2:].rjust(64, "0") for address in (terms.account, PERMIT2))
    call = {"to": terms.token, "data": _ALLOWANCE_SELECTOR + words}
    answer = yield Question(terms.chain_id, "eth_call", (call, "latest"))
    if not isinstance(answer, str) or not _WORD_HEX.fullmatch(answer):
        raise WalletError(f"the node returns no allowance of {terms.asset}")
    return int(answer, 16)


def read_blockhash(chain_id: str) -> ChainProcedure[str]:
    """Return the newest final blockhash, with which a transaction is good for half a minute."""
    answer = yield Question(chain_id, "getLatestBlockhash", ({"commitment": "finalized"},))
    try:
        return str(Hash.from_string(answer["value"]["blockhash"]))
    except (KeyError, TypeError, ParseHashError):
        raise WalletError(f"the node returns no blockhash of {chain_id}") from None


def _build_permit(terms: OptionTerms, transfer: AddressTransfer, deadline: int) -> AddressPermit:
    permit = Permit2Transfer(
        chain_id=transfer.route.chain_id,
        token=transfer.route.token,
        spender=X402_PROXY,
        amount=transfer.amount,
        nonce=secrets.randbits(256),
        deadline=deadline,
    )
    return AddressPermit(permit, terms.account, transfer.address, transfer.route)


def _plan_approvals(terms: OptionTerms, allowance: int | None) -> list[TokenApproval]:
    """Return the transactions that let Permit2 move the price, if it may not."""
    if allowance is None or allowance >= terms.amount or terms.token is None:
        return []
    # some tokens accept a new allowance only after a reset to 0
    amounts = [0, terms.amount] if allowance else [terms.amount]
    return [TokenApproval(terms.token, PERMIT2, amount) for amount in amounts]


def _build_step(way: X402Way, payment: SolanaPayment, blockhash: Hash) -> Step:
    """Return the transaction as a step; WalletError if it would pay another merchant.

    ValueError if a text is not an address.
    """
    mint, payer, receiver, fee_payer, _ = (
        Pubkey.from_string(text)
        for text in (
            way.terms.token or "",
            way.terms.account,
            way.receiver,
            way.fee_payer,
            way.memo,
        )
    )
    # the first receiver of an option is the merchant, and the second the operator
    expected = payment.receivers[0][0]
    for program in TOKEN_PROGRAMS:
        dest = solana_steps.derive_associated_account(receiver, mint, program)
        if str(dest) == expected and payment.decimals is not None:
            source = solana_steps.derive_associated_account(payer, mint, program)
            transfer = solana_steps.build_token_transfer(
                program, (source, mint, dest, payer), way.terms.amount, payment.decimals
            )
            break
    else:
        raise WalletError(
            f"x402 requires a transfer to {way.receiver}, but the payment's option pays another "
            f"account, {expected}"
        )
    instructions = [
        set_compute_unit_limit(_COMPUTE_UNITS),
        set_compute_unit_price(_COMPUTE_PRICE),
        transfer,
        Instruction(Pubkey.from_string(MEMO_PROGRAM), way.memo.encode(), []),
    ]
    message = MessageV0.try_compile(fee_payer, instructions, [], blockhash)
    unsigned = [Signature.default()] * message.header.num_required_signatures
    encoded = base64.b64encode(bytes(VersionedTransaction.populate(message, unsigned))).decode()
    return Step(way.terms.chain_id, "solana_signTransaction", ({"transaction": encoded},))
