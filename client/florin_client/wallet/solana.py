"""A key of Solana: signs transactions and returns them, without sending them."""

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
        """Return the address without the secret."""
        return f"SolanaKey({self.address})"

    def sign(self, step: SolanaPayment) -> str:
        """Sign the step of a plan; return the signed transaction in base64."""
        return self.sign_transaction(step.transaction)

    def sign_transaction(self, transaction: VersionedTransaction) -> str:
        """Sign any transaction, unchecked; other signatures stay.

        Raise WalletError if the transaction does not need a signature of this key.
        """
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        own = self.pair.pubkey()
        if own not in signers:
            raise WalletError(f"the transaction needs no signature of {self.address}")
        signatures = list(transaction.signatures)
        signatures[signers.index(own)] = self.pair.sign_message(to_bytes_versioned(message))
        versioned_transaction = VersionedTransaction.populate(message, signatures)
        return base64.b64encode(bytes(versioned_transaction)).decode()
