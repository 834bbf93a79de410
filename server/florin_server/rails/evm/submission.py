"""The one transaction that settles payments: which contract is called, with what and how much gas.

Accounts that do not exist yet are created first, by the opener; everything else goes to the
settlement contract itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from florin_server.domain.journal import PayerKind
from florin_server.rails.evm import settler
from florin_server.rails.evm.erc6492 import Opening, open_and_call, unwrap
from florin_server.rails.evm.fees import (
    GAS_BASE,
    GAS_ITEM,
    GAS_OPENING,
    GAS_WALLET_ITEM,
    gas_limit,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.terms import PERMIT2_METHOD, Terms, proof
from florin_server.rails.evm.typed_data import digest_of

GAS_ITEM_HEAVIEST = GAS_WALLET_ITEM + GAS_OPENING


@dataclass(frozen=True, slots=True)
class Item:
    """One payment as it is submitted. `opening` creates the payer's account, if it must be."""

    pay: settler.Pay
    by_permit2: bool
    by_key: bool
    opening: Opening | None

    @property
    def gas(self) -> int:
        """Its share of a transaction."""
        share = GAS_ITEM if self.by_key else GAS_WALLET_ITEM
        return share if self.opening is None else share + GAS_OPENING

    @property
    def kind(self) -> PayerKind:
        """Who answers for it, as its signature tells."""
        if self.opening is not None:
            return PayerKind.UNBORN
        return PayerKind.KEY if self.by_key else PayerKind.CODE

    def by_code(self) -> Item:
        """The same if the payer has code: it is asked for any signature, and needs no creation."""
        return replace(self, by_key=False, opening=None)


@dataclass(frozen=True, slots=True)
class Submission:
    """A call of ours that settles. `to` is lower-case."""

    to: str
    data: bytes
    gas: int


def item(chain: EvmChain, terms: Terms, payer: str, given: bytes) -> Item:
    """A payment with the signature that its wallet gave; equal arguments give equal items."""
    wrapped = unwrap(given)
    if wrapped is None:
        proven = proof(digest_of(terms.message(payer)), payer, given)
        pay, by_key, opening = terms.pay(payer, proven.signature), proven.by_key, None
    else:
        pay, by_key = terms.pay(payer, wrapped.signature), False
        allowed = chain.opener is not None and wrapped.factory in chain.factories
        opening = Opening(payer, wrapped.factory, wrapped.data) if allowed else None
    return Item(pay, terms.method == PERMIT2_METHOD, by_key, opening)


def submission(chain: EvmChain, items: Sequence[Item]) -> Submission:
    """What settles the items; it answers a bit for each, first all by EIP-3009, then the others."""
    by_3009 = [one.pay for one in items if not one.by_permit2]
    by_permit2 = [one.pay for one in items if one.by_permit2]
    data = settler.settle(by_3009, by_permit2)
    by_wallet = sum(not one.by_key for one in items)
    openings = [one.opening for one in items if one.opening is not None]
    gas = gas_limit(len(items) - by_wallet, by_wallet, chain.gas_max, len(openings))
    if not openings or chain.opener is None:
        return Submission(chain.settler, data, gas)
    return Submission(chain.opener, open_and_call(openings, chain.settler, data), gas)


def cut(chain: EvmChain, items: Sequence[Item], most: int) -> list[int]:
    """How many items, from the first on, go into one transaction each: their gas must fit."""
    counts: list[int] = []
    left = 0
    for one in items:
        if not counts or counts[-1] == most or one.gas > left:
            counts.append(0)
            left = chain.gas_max - GAS_BASE
        counts[-1] += 1
        left -= one.gas
    return counts
