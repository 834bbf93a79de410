"""The one transaction that settles payments: which contract is called, with what and how much gas.

Accounts that do not exist yet are created first, by the opener; everything else goes to the
settlement contract itself. Each payment has a share of the gas that it cannot exceed, so that no
payer, whatever its code does, takes the gas of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from florin_server.chains.evm.typed_data import digest_of
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.erc6492 import Opening, open_and_call, unwrap
from florin_server.rails.evm.paying.terms import PERMIT2_METHOD, Proof, Terms, proof
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    WALLET_GAS,
    opening_share,
    payment_share,
)
from florin_server.rails.evm.sending.gas_shares import TODAY, GasShares
from florin_server.rails.evm.settings import EvmChain

# Nodes refuse a transaction of more than 128 KiB.
DATA_MAX = 120_000
_FRAME = 512  # bytes of calldata around the items
# The heaviest payment: a wallet's longest answer (4 KiB), which creates its account too.
_SIZE_MAX = 5_000
GAS_HEAVIEST = payment_share(WALLET_GAS, _SIZE_MAX) + opening_share(0)


@dataclass(frozen=True, slots=True)
class Item:
    """One payment as it is submitted. `opening` creates the payer's account, if it must be.

    `settler` is the contract that its wallet signed for, which may be a former one of the chain.
    """

    pay: settler.Pay
    settler: str
    by_permit2: bool
    by_key: bool
    opening: Opening | None

    @property
    def size(self) -> int:
        """Bytes of a transaction's calldata that are there for it."""
        return self.pay.size if self.opening is None else self.pay.size + self.opening.size

    @property
    def gas(self) -> int:
        """Its share of a transaction: more than it can use."""
        share = payment_share(self.pay.gas, self.pay.size)
        return share if self.opening is None else share + opening_share(self.opening.size)

    @property
    def kind(self) -> PayerKind:
        """Who answers for it, as its signature tells."""
        if self.opening is not None:
            return PayerKind.UNBORN
        return PayerKind.KEY if self.by_key else PayerKind.CODE

    def by_code(self, shares: GasShares = TODAY) -> Item:
        """The same if the payer has code: it is asked for any signature, and needs no creation."""
        pay = replace(self.pay, gas=shares.payment(self.pay.token, by_key=False))
        return replace(self, pay=pay, by_key=False, opening=None)


@dataclass(frozen=True, slots=True)
class Submission:
    """A call of ours that settles. `to` is lower-case."""

    to: str
    data: bytes
    gas: int


def item(
    chain: EvmChain, terms: Terms, payer: str, given: bytes, shares: GasShares = TODAY
) -> Item:
    """A payment with the signature that its wallet gave; equal arguments give equal items."""
    wrapped = unwrap(given)
    if wrapped is None:
        proven = proof(digest_of(terms.message(payer)), payer, given)
        return plain_item(chain, terms, payer, proven, shares)
    inner = plain_item(chain, terms, payer, Proof(wrapped.signature, by_key=False), shares)
    if chain.opener is None or wrapped.factory not in chain.factories:
        return inner
    return replace(inner, opening=Opening(payer, wrapped.factory, wrapped.data))


def plain_item(
    chain: EvmChain, terms: Terms, payer: str, proven: Proof, shares: GasShares = TODAY
) -> Item:
    """A payment whose payer needs not be created."""
    signed_for = terms.route.settler
    # what a contract does that is not followed would not be seen: the present one refuses
    contract = signed_for if signed_for in chain.settlers else chain.settler
    gas = shares.payment(terms.route.token, by_key=proven.by_key)
    pay = terms.pay(payer, proven.signature, gas)
    by_permit2 = terms.method == PERMIT2_METHOD
    return Item(pay, contract, by_permit2, proven.by_key, opening=None)


def submission(chain: EvmChain, items: Sequence[Item], shares: GasShares = TODAY) -> Submission:
    """What settles the items; it answers a bit for each, first all by EIP-3009, then the others.

    Without items, to use up a nonce, it calls the present contract. ValueError unless all go
    through one settlement contract.
    """
    (contract,) = {one.settler for one in items} or {chain.settler}
    by_3009 = [one.pay for one in items if not one.by_permit2]
    by_permit2 = [one.pay for one in items if one.by_permit2]
    to, data = contract, settler.settle(by_3009, by_permit2)
    openings = [one.opening for one in items if one.opening is not None]
    if openings and chain.opener is not None:
        to, data = chain.opener, open_and_call(openings, contract, data)
    gas = shares.transaction(sum(one.gas for one in items), len(data))
    return Submission(to, data, gas)


def few(chain: EvmChain, shares: GasShares = TODAY) -> int:
    """How many items fit into one transaction whatever they are."""
    heaviest = GAS_HEAVIEST + payment_share(shares.surplus_max, 0)
    room = chain.gas_max - GAS_BASE - shares.base
    return min(room // heaviest, (DATA_MAX - _FRAME) // _SIZE_MAX)


def cut(chain: EvmChain, items: Sequence[Item], most: int) -> list[int]:
    """How many items, from the first on, go into one transaction each: all that they need fits.

    Those of one transaction go through one settlement contract.
    """
    counts: list[int] = []
    contract = ""
    gas = size = 0
    for one in items:
        full = not counts or counts[-1] == most or one.gas > gas or one.size > size
        if full or one.settler != contract:
            counts.append(0)
            contract = one.settler
            gas, size = chain.gas_max - GAS_BASE, DATA_MAX - _FRAME
        counts[-1] += 1
        gas -= one.gas
        size -= one.size
    return counts
