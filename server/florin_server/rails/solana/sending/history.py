"""What the treasury signed, as the chain has it: no nonce tells of a transaction that was lost."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.connection.node import answered
from florin_server.rails.solana.reading.node import FINALIZED, Node, number, record
from florin_server.rails.types import Noted, RailUnavailable, Signed

# of one answer, and the most that nodes give
_SIGNATURES = 1000
_UNSUPPORTED_VERSION = -32015  # a transaction's version is above what was asked for
# how nodes show a transaction's only memo
_MEMO = re.compile(r"\[\d+\] ([A-Za-z0-9_]+)")


class SolanaTreasuryHistory:
    """Implements the TreasuryHistory protocol."""

    def __init__(self, node: Node, treasury: Pubkey) -> None:
        self._node = node
        self._treasury = treasury

    async def list_since(self, signature: str) -> list[Noted]:
        """Return the finalized transactions that name the treasury, the newest first.

        At most the newest thousand after a signature, or of all if that is empty. Anybody may name
        the treasury, and write any memo.
        """
        config = {"limit": _SIGNATURES, "commitment": FINALIZED}
        if signature:
            config["until"] = signature
        told = answered(
            await self._node.ask("getSignaturesForAddress", str(self._treasury), config)
        )
        if not isinstance(told, list):
            raise RailUnavailable("the node answered something else than a list")
        noted = []
        for one in map(record, told):
            memo = _MEMO.fullmatch(str(one.get("memo")))
            reference = memo[1] if memo and one.get("err") is None else ""
            noted.append(Noted(str(one.get("signature")), reference))
        return noted

    async def find_signed(self, signature: str) -> Signed | None:
        """Return the transaction with a signature; None if the treasury did not sign it."""
        config = {
            "encoding": "base64",
            "commitment": FINALIZED,
            "maxSupportedTransactionVersion": 0,
        }
        (answer,) = await self._node.batch([("getTransaction", (signature, config))])
        if isinstance(answer, RpcError) and answer.code == _UNSUPPORTED_VERSION:
            # ours are of version 0: a stranger's transaction must not keep ours from being found
            return None
        told = record(answered(answer))
        encoded: Any = told.get("transaction")
        try:
            raw = b64decode(encoded[0])
            transaction = VersionedTransaction.from_bytes(raw)
        except (TypeError, ValueError, IndexError) as error:
            raise RailUnavailable("the node answered something else than a transaction") from error
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        is_ours = self._treasury in signers and str(transaction.signatures[0]) == signature
        if not is_ours or not all(transaction.verify_with_results()):
            return None
        return Signed(raw, signature, since_block=max(0, number(told.get("slot")) - 1))
