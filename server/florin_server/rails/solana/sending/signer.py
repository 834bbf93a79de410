"""The relayer's key; it signs last, what was checked before."""

from __future__ import annotations

from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.rails.solana.reading.node import Blockhash
from florin_server.rails.types import Signed


class SolanaSigner:
    """A key that pays for fees and rent. Shows its address only."""

    __slots__ = ("_key", "address", "pubkey")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != 32:
            raise ValueError("a seed has 32 bytes")
        self._key = Keypair.from_seed(seed)
        self.pubkey: Pubkey = self._key.pubkey()
        self.address = str(self.pubkey)

    def __repr__(self) -> str:
        return f"SolanaSigner({self.address})"

    def sign(self, message: MessageV0) -> Signature:
        """The signature of a message."""
        return self._key.sign_message(to_bytes_versioned(message))

    def seal(self, message: MessageV0, recent: Blockhash) -> Signed:
        """A transaction that needs no other signature, ready to be sent; `recent` is in it."""
        own = self.sign(message)
        sealed = VersionedTransaction.populate(message, [own])
        return Signed(
            raw=bytes(sealed),
            hash=str(own),
            lapses_at=recent.last_valid,
            since_block=recent.slot,
        )

    def co_sign(self, message: MessageV0, payer_signature: Signature) -> Signed:
        """The transaction ready to be sent; equal arguments give equal bytes.

        The signer must be the message's first, the payer its second.
        """
        own = self.sign(message)
        sealed = VersionedTransaction.populate(message, [own, payer_signature])
        return Signed(raw=bytes(sealed), hash=str(own))
