"""The single transaction that settles payments: its contract, calldata and gas.

The opener creates accounts that do not exist yet; everything else goes to the settlement contract
itself. Each payment has a share of the gas that it cannot exceed, so that no payer's code can use
the gas of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.chains.evm.typed_data import get_digest
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm import forwarder, settler
from florin_server.rails.evm.paying.erc6492 import AccountCreation, encode_open_and_call, unwrap
from florin_server.rails.evm.paying.terms import (
    PERMIT2_METHOD,
    ZERO_ADDRESS,
    EvmOptionTerms,
    SignatureProof,
    build_proof,
)
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    WALLET_GAS,
    compute_creation_share,
    compute_payment_share,
)
from florin_server.rails.evm.sending.forward_arguments import ForwardArguments
from florin_server.rails.evm.sending.gas_shares import DEFAULT_SHARES, GasShares
from florin_server.rails.evm.settings import EvmChainSettings

# Nodes refuse a transaction of more than 128 KiB.
DATA_MAX = 120_000
_FRAME = 512  # bytes of calldata around the items
# The heaviest payment: a wallet's longest output (4 KiB), which also creates its account.
_SIZE_MAX = 5_000
PAYMENT_GAS_HEAVIEST = compute_payment_share(WALLET_GAS, _SIZE_MAX) + compute_creation_share(0)


@dataclass(frozen=True, slots=True)
class SubmissionItem:
    """One payment in the form to submit; `creation` creates the payer's account, if needed.

    If the payer approved by signature, `creation` is instead the call that submits the approval.

    `settler` is the contract that its wallet signed for, which can be a former contract of the
    chain.
    """

    arguments: settler.PayArguments | ForwardArguments
    settler: str
    is_permit2: bool
    is_key_signature: bool
    creation: AccountCreation | None

    @property
    def size(self) -> int:
        """Return the bytes of a transaction's calldata that it takes."""
        return (
            self.arguments.size
            if self.creation is None
            else self.arguments.size + self.creation.size
        )

    @property
    def gas(self) -> int:
        """Return its share of a transaction's gas: more than it can use."""
        share = compute_payment_share(self.arguments.gas, self.arguments.size)
        return (
            share if self.creation is None else share + compute_creation_share(self.creation.size)
        )

    @property
    def kind(self) -> PayerKind:
        """Return the payer's kind according to the signature."""
        if self.creation is not None and not self.is_approved_by_signature:
            return PayerKind.UNBORN
        return PayerKind.KEY if self.is_key_signature else PayerKind.CODE

    def encode_alone(self) -> bytes:
        """Encode the call that settles it alone, or reverts with the token's own reason."""
        if isinstance(self.arguments, ForwardArguments):
            return forwarder.encode_forward_one(self.arguments.to_forwarding())
        return settler.encode_settle_one(self.arguments, is_permit2=self.is_permit2)

    @property
    def is_approved_by_signature(self) -> bool:
        """Return whether the payer's signed approval is submitted with it."""
        return self.creation is not None and self.creation.account == ZERO_ADDRESS

    def to_contract_item(self, shares: GasShares = DEFAULT_SHARES) -> SubmissionItem:
        """Return the item for a payer with code: any signature form, and no creation."""
        pay = replace(
            self.arguments, gas=shares.get_payment_gas(self.arguments.token, by_key=False)
        )
        creation = self.creation if self.is_approved_by_signature else None
        return replace(self, arguments=pay, is_key_signature=False, creation=creation)


@dataclass(frozen=True, slots=True)
class SettlementCall:
    """A call of ours that settles. `to` is lower-case."""

    to: str
    data: bytes
    gas: int


def build_item(
    chain: EvmChainSettings,
    terms: EvmOptionTerms,
    payer: str,
    signature: bytes,
    shares: GasShares = DEFAULT_SHARES,
) -> SubmissionItem:
    """Build a payment with its wallet's signature; equal arguments give equal items."""
    wrapped = unwrap(signature)
    if wrapped is None:
        proven = build_proof(get_digest(terms.build_message(payer)), payer, signature)
        return build_plain_item(chain, terms, payer, proven, shares)
    if terms.permit is not None:
        # The opener makes a call on behalf of an account that has no code, and passes over its
        # failure: an approval that a stranger submitted before counts as well.
        proven = build_proof(get_digest(terms.build_message(payer)), payer, wrapped.signature)
        item = build_plain_item(chain, terms, payer, proven, shares)
        approval = AccountCreation(ZERO_ADDRESS, wrapped.factory, wrapped.data)
        return item if chain.opener is None else replace(item, creation=approval)
    plain_item = build_plain_item(
        chain, terms, payer, SignatureProof(wrapped.signature, is_key_signature=False), shares
    )
    if chain.opener is None or wrapped.factory not in chain.factories:
        return plain_item
    return replace(plain_item, creation=AccountCreation(payer, wrapped.factory, wrapped.data))


def build_plain_item(
    chain: EvmChainSettings,
    terms: EvmOptionTerms,
    payer: str,
    proof: SignatureProof,
    shares: GasShares = DEFAULT_SHARES,
) -> SubmissionItem:
    """Build a payment whose payer need not be created."""
    signed_for = terms.route.settler
    # effects of an unobserved contract would be missed: the present contract refuses it
    contract = signed_for if signed_for in chain.settlers else chain.settler
    gas = shares.get_payment_gas(terms.route.token, by_key=proof.is_key_signature)
    pay = terms.build_pay_arguments(payer, proof.signature, gas)
    by_permit2 = terms.method == PERMIT2_METHOD
    return SubmissionItem(pay, contract, by_permit2, proof.is_key_signature, creation=None)


def build_forward_item(
    route: ForwardRoute, payer: str, shares: GasShares = DEFAULT_SHARES
) -> SubmissionItem:
    """Build the item that forwards what came to an address without a key.

    No code of the buyer runs, so it needs as much gas as a plain key's payment.
    """
    gas = shares.get_payment_gas(route.token, by_key=True)
    return SubmissionItem(
        ForwardArguments(route, payer, gas),
        route.forwarder,
        is_permit2=False,
        is_key_signature=True,
        creation=None,
    )


def build_settlement_call(
    chain: EvmChainSettings,
    submission_items: Sequence[SubmissionItem],
    shares: GasShares = DEFAULT_SHARES,
) -> SettlementCall:
    """Build the call that settles items; it returns a bit for each, in the order of `sort_items`.

    Without items, to use up a nonce, it calls the present contract. Raise ValueError unless all
    items go through one settlement contract.
    """
    (contract,) = {submission_item.settler for submission_item in submission_items} or {
        chain.settler
    }
    to, data = contract, _encode_items(submission_items)
    openings = [
        submission_item.creation
        for submission_item in submission_items
        if submission_item.creation is not None
    ]
    if openings and chain.opener is not None:
        to, data = chain.opener, encode_open_and_call(openings, contract, data)
    gas = shares.compute_transaction_gas(
        sum(submission_item.gas for submission_item in submission_items)
        + compute_payout_reserve([item.arguments.gas for item in submission_items]),
        len(data),
    )
    return SettlementCall(to, data, gas)


def sort_items(submission_items: Sequence[SubmissionItem]) -> list[SubmissionItem]:
    """Return items in the contract's order: EIP-3009 first, and those with the same ends together.

    The contract pays out neighbors of one token, merchant and fee receiver together.
    """
    return sorted(
        submission_items,
        key=lambda item: (
            item.is_permit2,
            item.arguments.token,
            item.arguments.dest,
            item.arguments.fee_to,
        ),
    )


def compute_payout_reserve(gas_limits: Sequence[int]) -> int:
    """Return the gas that a transaction of several payments needs besides their shares.

    Sums are paid out only while the gas of one more payment is left, so that payments which use all
    of theirs do not revert the transaction. What is used is the gas that payments left over.
    """
    return compute_payment_share(max(gas_limits), 0) if len(gas_limits) > 1 else 0


def _encode_items(submission_items: Sequence[SubmissionItem]) -> bytes:
    forwards: list[forwarder.Forwarding] = []
    by_3009: list[settler.PayArguments] = []
    by_permit2: list[settler.PayArguments] = []
    for item in sort_items(submission_items):
        if isinstance(item.arguments, ForwardArguments):
            forwards.append(item.arguments.to_forwarding())
        else:
            (by_permit2 if item.is_permit2 else by_3009).append(item.arguments)
    # items of one contract, as `split_items` divides them
    return (
        forwarder.encode_forward(forwards)
        if forwards
        else settler.encode_settle(by_3009, by_permit2)
    )


def count_items_that_fit(chain: EvmChainSettings, shares: GasShares = DEFAULT_SHARES) -> int:
    """Return how many items of any kind fit into one transaction."""
    heaviest = PAYMENT_GAS_HEAVIEST + compute_payment_share(shares.surplus_max, 0)
    room = chain.gas_max - GAS_BASE - shares.base_surcharge
    reserve = compute_payment_share(WALLET_GAS + shares.surplus_max, 0)
    by_gas = max(min(room // heaviest, 1), (room - reserve) // heaviest)
    return min(by_gas, (DATA_MAX - _FRAME) // _SIZE_MAX)


def split_items(
    chain: EvmChainSettings, submission_items: Sequence[SubmissionItem], items_max: int
) -> list[int]:
    """Return how many items, in order, go into each transaction, with room for all they need.

    The items of one transaction go through one settlement contract.
    """
    counts: list[int] = []
    contract = ""
    gas = size = gas_limit = 0
    for submission_item in submission_items:
        gas_limit = max(gas_limit, submission_item.arguments.gas)
        full = (
            not counts
            or counts[-1] == items_max
            or submission_item.gas + compute_payout_reserve((gas_limit, gas_limit)) > gas
            or submission_item.size > size
        )
        if full or submission_item.settler != contract:
            counts.append(0)
            contract = submission_item.settler
            gas, size = chain.gas_max - GAS_BASE, DATA_MAX - _FRAME
            gas_limit = submission_item.arguments.gas
        counts[-1] += 1
        gas -= submission_item.gas
        size -= submission_item.size
    return counts
