"""The relayer's key, which signs last, after all checks."""

from __future__ import annotations

from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.rails.solana.reading.node import RecentBlockhash
from florin_server.rails.types import SignedTransaction


class SolanaSigner:
    """A key that pays for fees and rent. It shows only its address."""

    __slots__ = ("_key", "address", "pubkey")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != 32:
            raise ValueError("a seed must have 32 bytes")
        self._key = Keypair.from_seed(seed)
        self.pubkey: Pubkey = self._key.pubkey()
        self.address = str(self.pubkey)

    def __repr__(self) -> str:
        return f"SolanaSigner({self.address})"

    def sign(self, message: MessageV0) -> Signature:
        """Return the signature of a message."""
        return self._key.sign_message(to_bytes_versioned(message))

    def sign_transaction(self, message: MessageV0, blockhash: RecentBlockhash) -> SignedTransaction:
        """Sign a transaction that needs no other signature; `blockhash` is its blockhash."""
        own = self.sign(message)
        sealed = VersionedTransaction.populate(message, [own])
        return SignedTransaction(
            raw=bytes(sealed),
            hash=str(own),
            lapses_at=blockhash.last_valid_height,
            since_block=blockhash.slot,
        )

    def co_sign(self, message: MessageV0, payer_signature: Signature) -> SignedTransaction:
        """Sign the payer's transaction, ready to send; equal arguments give equal bytes.

        The signer must be the message's first signer, the payer its second.
        """
        own = self.sign(message)
        sealed = VersionedTransaction.populate(message, [own, payer_signature])
        return SignedTransaction(raw=bytes(sealed), hash=str(own))
