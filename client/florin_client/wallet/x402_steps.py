"""Signatures for a payment by x402: a transfer by EIP-3009, by Permit2, or on Solana."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from florin_client.wallet.evm_steps import Permit2Transfer, TransferAuthorization
from florin_client.wallet.solana_steps import SolanaPayment
from florin_client.wallet.transfers import TransferRoute

# x402's contract for Permit2, at this address on every chain that has it
X402_PROXY: Final = "0x402085c248eea27d92e8b30b2c58ed07f9e20001"

_WITNESS_TYPE: Final = "PermitWitnessTransferFrom"
_WITNESS_FIELDS: Final = (("to", "address"), ("validAfter", "uint256"))


@dataclass(frozen=True, slots=True)
class AddressAuthorization:
    """A signature with which anyone can send the price to a payment's address, once."""

    method = "eth_signTypedData_v4"

    authorization: TransferAuthorization
    route: TransferRoute

    @property
    def amount(self) -> int:
        """Return the amount in minor units of the token."""
        return self.authorization.amount

    @property
    def receiver(self) -> str:
        """Return the payment's address."""
        return self.authorization.receiver

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        return self.authorization.to_document()

    def to_payload(self, signature: str) -> dict[str, Any]:
        """Return the signed transfer in the form of x402."""
        signed = self.authorization
        return {
            "signature": signature,
            "authorization": {
                "from": signed.payer,
                "to": signed.receiver,
                "value": str(signed.amount),
                "validAfter": "0",
                "validBefore": str(signed.valid_before),
                "nonce": "0x" + signed.nonce.hex(),
            },
        }


@dataclass(frozen=True, slots=True)
class AddressPermit:
    """A Permit2 signature with which anyone can send the price to a payment's address, once.

    The spender is x402's contract, which sends all of it to the signed receiver. The payer must
    have approved Permit2 for the token.
    """

    method = "eth_signTypedData_v4"

    permit: Permit2Transfer
    payer: str
    receiver: str
    route: TransferRoute

    @property
    def amount(self) -> int:
        """Return the amount in minor units of the token."""
        return self.permit.amount

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document: that of the permit, with the receiver as its witness."""
        document = self.permit.to_document()
        types = dict(document["types"])
        members = types.pop(document["primaryType"])
        witness = [{"name": name, "type": kind} for name, kind in _WITNESS_FIELDS]
        types |= {
            _WITNESS_TYPE: [*members, {"name": "witness", "type": "Witness"}],
            "Witness": witness,
        }
        message = {**document["message"], "witness": {"to": self.receiver, "validAfter": "0x0"}}
        return {**document, "types": types, "primaryType": _WITNESS_TYPE, "message": message}

    def to_payload(self, signature: str) -> dict[str, Any]:
        """Return the signed permit in the form of x402."""
        permit = self.permit
        return {
            "signature": signature,
            "permit2Authorization": {
                "from": self.payer,
                "permitted": {"token": permit.token, "amount": str(permit.amount)},
                "spender": permit.spender,
                "nonce": str(permit.nonce),
                "deadline": str(permit.deadline),
                "witness": {"to": self.receiver, "validAfter": "0"},
            },
        }


@dataclass(frozen=True, slots=True)
class MerchantTransfer:
    """A transaction that sends the price to `receiver`, the merchant's wallet on Solana.

    It is worth nothing without the signature of the fee payer. `memo` names the payment.
    """

    method = "solana_signTransaction"

    payment: SolanaPayment
    receiver: str
    memo: str

    @property
    def amount(self) -> int:
        """Return the amount in minor units of the token."""
        return self.payment.amount

    def to_payload(self, transaction: str) -> dict[str, Any]:
        """Return the signed transaction in the form of x402."""
        return {"transaction": transaction}


# a step that signs a payment by x402
X402Step: TypeAlias = AddressAuthorization | AddressPermit | MerchantTransfer
