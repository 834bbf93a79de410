"""A key of Solana: transactions are signed and handed back, not sent."""

from __future__ import annotations

import base64

from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from florin_client.wallet.actions import WalletError
from florin_client.wallet.solana_steps import SolanaPayment


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

    def sign(self, step: SolanaPayment) -> str:
        """Sign the step of a plan; the transaction in base64, with the signature in its place."""
        return self.signed(step.transaction)

    def signed(self, transaction: VersionedTransaction) -> str:
        """Sign any transaction, unchecked; other signatures stay.

        WalletError if the transaction asks for no signature of this key.
        """
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        own = self.pair.pubkey()
        if own not in signers:
            raise WalletError(f"the transaction asks for no signature of {self.address}")
        signatures = list(transaction.signatures)
        signatures[signers.index(own)] = self.pair.sign_message(to_bytes_versioned(message))
        made = VersionedTransaction.populate(message, signatures)
        return base64.b64encode(bytes(made)).decode()
