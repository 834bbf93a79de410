"""Transfers that payers signed for anyone to send: their calls, and what shows that they happened.

By EIP-3009 the token itself takes the signature. By Permit2, the proxy of x402 takes it, and moves
all of the permitted amount to the receiver that the payer signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import (
    PERMIT2,
    X402_PROXY,
    PermitWitnessTransferFrom,
    TransferWithAuthorization,
)
from florin_server.rails.connection.jsonrpc import RpcCall
from florin_server.rails.evm.paying.terms import PERMIT2_METHOD, to_address
from florin_server.rails.evm.reading.evidence import AUTHORIZATION_STATE
from florin_server.rails.evm.reading.node import LATEST, build_call, parse_objects, parse_quantity
from florin_server.rails.facilitation import FacilitatedTransfer

_TRANSFER_BY_KEY: Final = abi.encode_selector(
    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,"
    "bytes32)"
)
_SETTLE: Final = abi.encode_selector(
    "settle(((address,uint256),uint256,uint256),address,(address,uint256),bytes)"
)
_NONCES: Final = abi.encode_selector("nonceBitmap(address,uint256)")
_ALLOWANCE: Final = abi.encode_selector("allowance(address,address)")
_TRANSFER: Final = abi.encode_topic("Transfer(address,address,uint256)")
_USED: Final = abi.encode_topic("AuthorizationUsed(address,bytes32)")
_CANCELED: Final = abi.encode_topic("AuthorizationCanceled(address,bytes32)")
# token, amount, nonce, deadline, owner, receiver, validAfter; then the offset of the signature
_SIGNED_WORDS: Final = 7
_WORD_BITS: Final = 8


@dataclass(frozen=True, slots=True)
class SignedTransfer:
    """A stored transfer, read as the call that makes it."""

    transfer: FacilitatedTransfer

    @property
    def is_permit2(self) -> bool:
        """Return True for a transfer by Permit2."""
        return self.transfer.content.get("method") == PERMIT2_METHOD

    @property
    def token(self) -> str:
        """Return the token's address."""
        return self.transfer.asset.partition("/erc20:")[2]

    @property
    def payer(self) -> str:
        """Return the payer's address."""
        return to_address(self.transfer.payer)

    @property
    def target(self) -> str:
        """Return the contract that the transaction calls."""
        return X402_PROXY if self.is_permit2 else self.token

    @property
    def call(self) -> bytes:
        """Return the calldata of the transaction."""
        return bytes.fromhex(str(self.transfer.content["call"])[2:])

    @property
    def nonce(self) -> str:
        """Return the payer's nonce, 32 bytes in hex."""
        return str(self.transfer.content["nonce"])

    def build_state_call(self, block: str = LATEST) -> RpcCall:
        """Return the call that reads whether the nonce was used; `is_used` reads the answer."""
        payer = abi.encode_address(self.payer)
        if self.is_permit2:
            word = int(self.nonce, 16) >> _WORD_BITS
            return build_call(PERMIT2, _NONCES + payer + abi.encode_uint256(word), block=block)
        data = AUTHORIZATION_STATE + payer + bytes.fromhex(self.nonce[2:])
        return build_call(self.token, data, block=block)

    def is_used(self, answer: int) -> bool:
        """Return True if the answer to the call of the state says that the nonce was used."""
        if not self.is_permit2:
            return bool(answer)
        return bool(answer >> (int(self.nonce, 16) % 2**_WORD_BITS) & 1)

    def build_allowance_call(self) -> RpcCall:
        """Return the call that reads how much Permit2 may move for the payer."""
        data = _ALLOWANCE + abi.encode_address(self.payer) + abi.encode_address(PERMIT2)
        return build_call(self.token, data)

    def build_filter(self) -> Mapping[str, Any]:
        """Return a filter for the logs of transactions that can have used the signature."""
        payer, pay_to = self._topics
        used: list[Any] = [[_USED, _CANCELED], payer, self.nonce]
        topics = [_TRANSFER, payer, pay_to] if self.is_permit2 else used
        return {"address": self.token, "topics": topics}

    def is_made_by(self, transaction: Mapping[str, Any]) -> bool:
        """Return True if a transaction of others calls the proxy with what the payer signed.

        Permit2 has no event of its nonces, so only a direct call shows which signature was used.
        """
        data = str(transaction.get("input")).lower()
        signed = abi.to_hex(self.call[: 4 + _SIGNED_WORDS * abi.WORD])
        return str(transaction.get("to")).lower() == X402_PROXY and data.startswith(signed)

    def is_paid(self, receipt: Mapping[str, Any]) -> bool:
        """Return True if a transaction succeeded and moved exactly the money.

        By EIP-3009, it also used the payer's signature; by Permit2, the caller knows that.
        """
        if parse_quantity(receipt.get("status")) != 1:
            return False
        payer, pay_to = self._topics
        logs = [
            ([str(topic).lower() for topic in log.get("topics", ())], str(log.get("data")).lower())
            for log in parse_objects(receipt.get("logs"))
            if str(log.get("address")).lower() == self.token
        ]
        moved = [_TRANSFER, payer, pay_to], abi.to_hex(abi.encode_uint256(self.transfer.value))
        used = [_USED, payer, self.nonce]
        return moved in logs and (self.is_permit2 or any(topics == used for topics, _ in logs))

    @property
    def _topics(self) -> tuple[str, str]:
        """Return payer and receiver as topics of a log."""
        payer, pay_to = (
            abi.to_hex(abi.encode_address(to_address(account)))
            for account in (self.transfer.payer, self.transfer.pay_to)
        )
        return payer, pay_to


def encode_authorization(message: TransferWithAuthorization, signature: bytes) -> bytes:
    """Return the calldata in the form that every token with EIP-3009 takes."""
    v = abi.encode_uint256(signature[64])
    return _TRANSFER_BY_KEY + message.encode_fields() + v + signature[:64]


def encode_settle(message: PermitWitnessTransferFrom, payer: str, signature: bytes) -> bytes:
    """Return the calldata of x402's proxy."""
    permit = message.permit
    words = (
        abi.encode_address(permit.token),
        abi.encode_uint256(permit.amount),
        abi.encode_uint256(permit.nonce),
        abi.encode_uint256(permit.deadline),
        abi.encode_address(payer),
        abi.encode_address(message.payee),
        abi.encode_uint256(message.valid_after),
        abi.encode_uint256((_SIGNED_WORDS + 1) * abi.WORD),
    )
    padding = bytes(-len(signature) % abi.WORD)
    return _SETTLE + b"".join(words) + abi.encode_uint256(len(signature)) + signature + padding
