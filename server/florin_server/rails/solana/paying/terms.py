"""What an option promises, in the form it is stored: everything needed to verify and settle it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.payments.option_names import reference
from florin_server.domain.payments.payment import Build, Option
from florin_server.rails.offered import Offered, commitment
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import Asset, Commitment, Paid, Split

METHOD = "solana_signTransaction"
# a transaction that was confirmed as its quote ended has this long to land: twice what a blockhash
# lasts where slots have 400 ms, four times where they have 214 ms
QUOTE_GRACE_S = 120


@dataclass(frozen=True, slots=True)
class Terms:
    """One option's transfer. `dest` and `fee_to` own the accounts that receive.

    `settled` tells that `dest` is the merchant's own. `ref` is the text of the transaction's memo.
    The coin has the system program in the place of mint and token program.
    """

    chain_id: str
    mint: str
    program: str
    decimals: int
    value: int
    dest: str
    fee_to: str | None
    fee: int
    settled: bool
    ref: str

    @classmethod
    def of(cls, option: Option) -> Terms:
        """Reads back what an option stores."""
        stored = option.terms
        fee_to = stored["fee_to"]
        return cls(
            chain_id=str(stored["chain_id"]),
            mint=str(stored["mint"]),
            program=str(stored["program"]),
            decimals=int(str(stored["decimals"])),
            value=int(str(stored["value"])),
            dest=str(stored["dest"]),
            fee_to=None if fee_to is None else str(fee_to),
            fee=int(str(stored["fee"])),
            settled=bool(stored["settled"]),
            ref=str(stored["ref"]),
        )

    def stored(self) -> dict[str, object]:
        """JSON values."""
        return {
            "chain_id": self.chain_id,
            "mint": self.mint,
            "program": self.program,
            "decimals": self.decimals,
            "value": str(self.value),
            "dest": self.dest,
            "fee_to": self.fee_to,
            "fee": str(self.fee),
            "settled": self.settled,
            "ref": self.ref,
        }

    def split(self) -> Split:
        """Where the money goes, as it was offered."""
        fee_to = None if self.fee_to is None else f"{self.chain_id}:{self.fee_to}"
        return Split(f"{self.chain_id}:{self.dest}", fee_to, self.fee, self.settled)

    @property
    def is_coin(self) -> bool:
        """True if lamports are paid, and no token."""
        return self.program == str(spl.SYSTEM)

    def place(self, owner: str) -> Pubkey:
        """Where an owner holds what is paid."""
        if self.is_coin:
            return spl.pubkey(owner)
        return spl.associated(spl.pubkey(owner), spl.pubkey(self.mint), spl.pubkey(self.program))

    def shares(self) -> list[tuple[str, int]]:
        """Who receives how much; one share if both are the same."""
        if not self.fee or self.fee_to is None:
            return [(self.dest, self.value)]
        if self.fee_to == self.dest:
            return [(self.dest, self.value)]
        shares = [(self.dest, self.value - self.fee), (self.fee_to, self.fee)]
        return [(owner, amount) for owner, amount in shares if amount]

    def changes(self, payer: str) -> dict[Pubkey, int]:
        """By how much each account that holds what is paid changes."""
        found: dict[Pubkey, int] = {self.place(payer): -self.value}
        for owner, amount in self.shares():
            found[self.place(owner)] = found.get(self.place(owner), 0) + amount
        return found

    def instructions(
        self, chain: SolanaChain, relayer: Pubkey, payer: str, ready: Container[str] = ()
    ) -> list[Instruction]:
        """What the transaction does, in order; the owners in `ready` have accounts already."""
        return [
            set_compute_unit_limit(chain.compute_units),
            set_compute_unit_price(chain.compute_price),
            *(self._opening(relayer, owner) for owner in self._without(ready)),
            *(self._transfer(payer, owner, amount) for owner, amount in self.shares()),
            spl.memo(self.ref),
        ]

    def _without(self, ready: Container[str]) -> list[str]:
        if self.is_coin:
            return []
        return [owner for owner, _ in self.shares() if owner not in ready]

    def _opening(self, relayer: Pubkey, owner: str) -> Instruction:
        mint, program = spl.pubkey(self.mint), spl.pubkey(self.program)
        return spl.create_associated(relayer, spl.pubkey(owner), mint, program)

    def _transfer(self, payer: str, owner: str, amount: int) -> Instruction:
        if self.is_coin:
            return spl.transfer_coin(spl.pubkey(payer), spl.pubkey(owner), amount)
        return spl.transfer_checked(
            spl.pubkey(self.program),
            spl.pubkey(self.mint),
            self.decimals,
            owner=spl.pubkey(payer),
            source=self.place(payer),
            dest=self.place(owner),
            amount=amount,
        )

    def position_in(self, message: MessageV0) -> int | None:
        """Which instruction of a message pays the receiver, from 0; None if none does."""
        keys: list[Pubkey] = message.account_keys
        dest = self.place(self.dest)
        for position, one in enumerate(message.instructions):
            named = [keys[index] for index in one.accounts if index < len(keys)]
            if str(keys[one.program_id_index]) == self.program and dest in named[1:]:
                return position
        return None

    def proven_by(self, payer: str, paid: Paid) -> bool:
        """True if what moved is all that was promised."""
        told = (paid.ref, paid.payer, paid.token, paid.value, paid.dest, paid.fee)
        return told == (self.ref, payer, self.mint, self.value, self.dest, self.fee)


class SolanaTerms:
    """Implements the Terms protocol."""

    def reference(self, option: Option) -> str:
        """The text of the memo in the option's transaction."""
        return Terms.of(option).ref

    def split(self, option: Option) -> Split:
        """Where the option's money goes, as it was offered."""
        return Terms.of(option).split()

    def commitment(self, option: Option) -> Commitment:
        """What the option's id was made of, so that others can make it again."""
        return commitment(option, Terms.of(option).split(), None, ((),), lambda one: (one,))

    def last_second(self, option: Option) -> int | None:
        """When a payment at a rate may be sent last: its quote's end, and as long as it takes.

        The chain knows nothing of quotes, and a durable nonce does not lapse by itself.
        """
        return None if option.expires_at is None else option.expires_at + QUOTE_GRACE_S

    def proves(self, option: Option, paid: Paid) -> bool:
        """True if the transaction moved exactly what the option says."""
        return Terms.of(option).proven_by(bare(option.payer), paid)


def bare(account: str) -> str:
    """The address of a CAIP-10 account."""
    return account.rpartition(":")[2]


def terms_of(  # noqa: PLR0917  (one of each, none alike)
    chain: SolanaChain, asset: Asset, program: str, value: int, split: Split, ref: str = ""
) -> Terms:
    """The terms of paying a value of an asset."""
    return Terms(
        chain_id=chain.caip2,
        mint=asset.address,
        program=program,
        decimals=asset.decimals,
        value=value,
        dest=bare(split.dest),
        fee_to=None if split.fee_to is None else bare(split.fee_to),
        fee=split.fee,
        settled=split.settled,
        ref=ref,
    )


def build_option(chain: SolanaChain, offered: Offered, program: str) -> Option:
    """An option whose transaction is made when it is fetched: a blockhash lasts half a minute."""
    chosen = offered.id()
    ref = str(Hash.from_bytes(reference(offered.payment.salt, chosen)))
    terms = terms_of(chain, offered.asset, program, offered.value, offered.split, ref)
    return offered.option(
        chosen,
        eta_s=chain.eta_s,
        # what a wallet sends back to have it resolved; it tells nothing
        actions=(Build(chosen.replace("-", "")),),
        terms=terms.stored(),
    )
