"""The terms of an option as stored: all that is needed to verify and settle it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.option_names import derive_reference
from florin_server.domain.payments.payment import BuildAction, PaymentOption
from florin_server.rails.option_offer import OptionOffer, OptionOutline, rebuild_commitment
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import (
    TRANSFER_METHOD,
    Asset,
    OptionCommitment,
    SettlementEvent,
    Split,
)

METHOD = "solana_signTransaction"
# the payer's wallet sends the transaction and pays its fee
DIRECT_METHOD = "direct"
# A transaction confirmed just as its quote ends has this long to land: twice a blockhash's lifetime
# at slots of 400 ms, four times at 214 ms.
QUOTE_GRACE_S = 120

# of any version: wallets also send the oldest one
AnyMessage: TypeAlias = Message | MessageV0


@dataclass(frozen=True, slots=True)
class SolanaOptionTerms:
    """One option's transfer. `dest` and `fee_to` own the accounts that receive.

    `settled` is true if `dest` is the merchant's own. `ref` is the text of the transaction's memo.
    For the native coin, mint and token program are the system program. `named` is the address that
    the transfer names, if that is its proof in place of the memo; empty otherwise. `owed_fee` is no
    part of the transfer: the merchant owes it.
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
    named: str = ""
    owed_fee: int = 0

    @classmethod
    def from_option(cls, option: PaymentOption) -> SolanaOptionTerms:
        """Parse the terms that an option stores."""
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
            named=str(stored.get("named", "")),
            owed_fee=int(str(stored.get("owed_fee", 0))),
        )

    def to_json(self) -> dict[str, object]:
        """Return JSON values."""
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
            **({"named": self.named} if self.named else {}),
            **({"owed_fee": str(self.owed_fee)} if self.owed_fee else {}),
        }

    def to_split(self) -> Split:
        """Return the receivers of the money, as offered."""
        fee_to = None if self.fee_to is None else f"{self.chain_id}:{self.fee_to}"
        return Split(
            f"{self.chain_id}:{self.dest}", fee_to, self.fee, self.settled, owed_fee=self.owed_fee
        )

    @property
    def is_coin(self) -> bool:
        """Return True if the native coin is paid, and not a token."""
        return self.program == str(spl.SYSTEM)

    def get_token_address(self, owner: str) -> Pubkey:
        """Return the account in which an owner holds the paid asset."""
        if self.is_coin:
            return spl.parse_pubkey(owner)
        return spl.derive_associated_address(
            spl.parse_pubkey(owner), spl.parse_pubkey(self.mint), spl.parse_pubkey(self.program)
        )

    def list_shares(self) -> list[tuple[str, int]]:
        """Return the receivers and their amounts; a single share if both receivers are the same."""
        if not self.fee or self.fee_to is None:
            return [(self.dest, self.value)]
        if self.fee_to == self.dest:
            return [(self.dest, self.value)]
        shares = [(self.dest, self.value - self.fee), (self.fee_to, self.fee)]
        return [(owner, amount) for owner, amount in shares if amount]

    def compute_changes(self, payer: str) -> dict[Pubkey, int]:
        """Return the change of each account that holds the paid asset, in minor units."""
        changes: dict[Pubkey, int] = {self.get_token_address(payer): -self.value}
        for owner, amount in self.list_shares():
            changes[self.get_token_address(owner)] = (
                changes.get(self.get_token_address(owner), 0) + amount
            )
        return changes

    def build_instructions(
        self,
        chain: SolanaChainSettings,
        relayer: Pubkey,
        payer: str,
        ready_owners: Container[str] = (),
    ) -> list[Instruction]:
        """Return the instructions in order; owners in `ready_owners` already have accounts."""
        return [
            set_compute_unit_limit(chain.compute_units),
            set_compute_unit_price(chain.compute_price),
            *(
                self._build_account_creation(relayer, owner)
                for owner in self._list_missing_owners(ready_owners)
            ),
            *self.build_transfers(payer),
            spl.create_memo(self.ref),
        ]

    def build_transfers(self, payer: str) -> list[Instruction]:
        """Return one transfer for each receiver."""
        return [self._build_transfer(payer, owner, amount) for owner, amount in self.list_shares()]

    def _list_missing_owners(self, ready_owners: Container[str]) -> list[str]:
        if self.is_coin:
            return []
        return [owner for owner, _ in self.list_shares() if owner not in ready_owners]

    def _build_account_creation(self, relayer: Pubkey, owner: str) -> Instruction:
        mint, program = spl.parse_pubkey(self.mint), spl.parse_pubkey(self.program)
        return spl.create_associated_account(relayer, spl.parse_pubkey(owner), mint, program)

    def _build_transfer(self, payer: str, owner: str, amount: int) -> Instruction:
        if self.is_coin:
            return spl.transfer_coin(spl.parse_pubkey(payer), spl.parse_pubkey(owner), amount)
        return spl.transfer_checked(
            spl.parse_pubkey(self.program),
            spl.parse_pubkey(self.mint),
            self.decimals,
            owner=spl.parse_pubkey(payer),
            source=self.get_token_address(payer),
            dest=self.get_token_address(owner),
            amount=amount,
        )

    def find_position(self, message: AnyMessage) -> int | None:
        """Return which instruction of a message pays the receiver, from 0; None if none does."""
        keys: list[Pubkey] = message.account_keys
        dest = self.get_token_address(self.dest)
        for position, compiled_instruction in enumerate(message.instructions):
            named = [keys[index] for index in compiled_instruction.accounts if index < len(keys)]
            if (
                str(keys[compiled_instruction.program_id_index]) == self.program
                and dest in named[1:]
            ):
                return position
        return None

    def is_proven_by(self, payer: str, event: SettlementEvent) -> bool:
        """Return True if the event matches all the terms."""
        event_terms = (event.ref, event.payer, event.token, event.value, event.dest, event.fee)
        return event_terms == (self.ref, payer, self.mint, self.value, self.dest, self.fee)


class SolanaTermsReader:
    """Implement the TermsReader protocol."""

    def get_reference(self, option: PaymentOption) -> str:
        """Return the text of the memo in the option's transaction, if it has one."""
        return SolanaOptionTerms.from_option(option).ref

    def get_split(self, option: PaymentOption) -> Split:
        """Return the receivers of the option's money, as offered."""
        return SolanaOptionTerms.from_option(option).to_split()

    def get_commitment(self, option: PaymentOption) -> OptionCommitment:
        """Return the inputs of the option's id, so that others can recompute it."""
        return rebuild_commitment(
            option,
            SolanaOptionTerms.from_option(option).to_split(),
            None,
            (_list_steps(option.method),),
            lambda text: (text,),
        )

    def find_last_second(self, option: PaymentOption) -> int | None:
        """Return the last time to send a payment with a quote: the quote's end plus the grace.

        The chain does not know quotes, and a durable nonce does not expire by time.
        """
        return None if option.expires_at is None else option.expires_at + QUOTE_GRACE_S

    def is_proven(self, option: PaymentOption, event: SettlementEvent) -> bool:
        """Return True if the transaction moved exactly what the option says."""
        return SolanaOptionTerms.from_option(option).is_proven_by(to_address(option.payer), event)


def to_address(account: str) -> str:
    """Return the address of a CAIP-10 account."""
    return account.rpartition(":")[2]


def build_terms(  # noqa: PLR0917  (each of another type)
    chain: SolanaChainSettings, asset: Asset, program: str, value: int, split: Split, ref: str = ""
) -> SolanaOptionTerms:
    """Return the terms for paying a value of an asset."""
    return SolanaOptionTerms(
        chain_id=chain.caip2,
        mint=asset.address,
        program=program,
        decimals=asset.decimals,
        value=value,
        dest=to_address(split.dest),
        fee_to=None if split.fee_to is None else to_address(split.fee_to),
        fee=split.fee,
        settled=split.settled,
        ref=ref,
        owed_fee=split.owed_fee,
    )


def outline_option(chain: SolanaChainSettings, offer: OptionOffer) -> OptionOutline:
    """Return the id and the duration of an offer's option."""
    return OptionOutline(offer.compute_id(steps=_list_steps(offer.payable.method)), chain.eta_s)


def build_option(chain: SolanaChainSettings, offer: OptionOffer, program: str) -> PaymentOption:
    """Build an option whose transaction is built on fetch: a blockhash lasts half a minute.

    Of an option that the payer's wallet sends, the reference is stored: only the chain reports it.
    """
    method = offer.payable.method
    outline = outline_option(chain, offer)
    ref = str(Hash.from_bytes(derive_reference(offer.payment.salt, outline.id)))
    terms = build_terms(chain, offer.asset, program, offer.value, offer.split, ref)
    return offer.build_option(
        outline,
        # a wallet returns it to resolve the build; it contains no other information
        actions=(BuildAction(outline.id.replace("-", "")),),
        terms=terms.to_json(),
        method=method,
        reference=ref if method == DIRECT_METHOD else None,
    )


def _list_steps(method: str | None) -> tuple[str, ...]:
    """Return what distinguishes the id of an option that the payer's wallet sends."""
    return (method,) if method in {DIRECT_METHOD, TRANSFER_METHOD} else ()
