"""A key of Solana: transactions are signed and handed back, not sent."""

from __future__ import annotations

import base64
import binascii

from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from florin_client.wallet.actions import Step, WalletError


class SolanaKey:
    """One key. `secret` is the key pair: 64 bytes, or their base58."""

    def __init__(self, secret: str | bytes) -> None:
        if isinstance(secret, str):
            self.pair = Keypair.from_base58_string(secret)
        else:
            self.pair = Keypair.from_bytes(secret)
        self.address = str(self.pair.pubkey())

    def __repr__(self) -> str:
        """Without the secret."""
        return f"SolanaKey({self.address})"

    def sign(self, step: Step) -> str:
        """The transaction of a step in base64, with this key's signature in its place."""
        (asked,) = step.params
        try:
            raw = base64.b64decode(asked["transaction"], validate=True)
            transaction = VersionedTransaction.from_bytes(raw)
        except (binascii.Error, ValueError) as error:
            raise WalletError(f"that is no transaction: {error}") from None
        return self.signed(transaction)

    def signed(self, transaction: VersionedTransaction) -> str:
        """The same for a transaction; other signatures stay. WalletError if it is not asked."""
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        own = self.pair.pubkey()
        if own not in signers:
            raise WalletError(f"the transaction asks for no signature of {self.address}")
        signatures = list(transaction.signatures)
        signatures[signers.index(own)] = self.pair.sign_message(to_bytes_versioned(message))
        made = VersionedTransaction.populate(message, signatures)
        return base64.b64encode(bytes(made)).decode()
