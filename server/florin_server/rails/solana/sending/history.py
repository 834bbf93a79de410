"""The treasury's signed transactions on the chain: no nonce reveals a lost transaction."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    parse_number,
    parse_object,
)
from florin_server.rails.types import RailUnavailable, SignedTransaction, TreasuryMention

# in one answer; nodes give no more
_SIGNATURES_MAX = 1000
_UNSUPPORTED_VERSION = -32015  # a transaction's version is above the requested version
# nodes' form of a transaction's only memo
_MEMO = re.compile(r"\[\d+\] ([A-Za-z0-9_]+)")


class SolanaTreasuryHistory:
    """Implement the TreasuryHistory protocol."""

    def __init__(self, node: SolanaNode, treasury: Pubkey) -> None:
        self._node = node
        self._treasury = treasury

    async def list_mentions(self, signature: str) -> list[TreasuryMention]:
        """Return the finalized transactions that mention the treasury, the newest first.

        At most the newest thousand after a signature, or of all if that is empty. Anyone can
        mention the treasury, and write any memo.
        """
        config = {"limit": _SIGNATURES_MAX, "commitment": FINALIZED}
        if signature:
            config["until"] = signature
        entries = require_result(
            await self._node.call("getSignaturesForAddress", str(self._treasury), config)
        )
        if not isinstance(entries, list):
            raise RailUnavailable("the node returned something other than a list")
        noted = []
        for entry in map(parse_object, entries):
            memo = _MEMO.fullmatch(str(entry.get("memo")))
            reference = memo[1] if memo and entry.get("err") is None else ""
            noted.append(TreasuryMention(str(entry.get("signature")), reference))
        return noted

    async def find_transaction(self, signature: str) -> SignedTransaction | None:
        """Return the transaction with a signature; None if the treasury did not sign it."""
        config = {
            "encoding": "base64",
            "commitment": FINALIZED,
            "maxSupportedTransactionVersion": 0,
        }
        (answer,) = await self._node.batch([("getTransaction", (signature, config))])
        if isinstance(answer, RpcError) and answer.code == _UNSUPPORTED_VERSION:
            # ours are of version 0: a stranger's transaction must not hide ours
            return None
        reported_transaction = parse_object(require_result(answer))
        encoded: Any = reported_transaction.get("transaction")
        try:
            raw = b64decode(encoded[0])
            transaction = VersionedTransaction.from_bytes(raw)
        except (TypeError, ValueError, IndexError) as error:
            raise RailUnavailable("the node returned something other than a transaction") from error
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        is_ours = self._treasury in signers and str(transaction.signatures[0]) == signature
        if not is_ours or not all(transaction.verify_with_results()):
            return None
        return SignedTransaction(
            raw, signature, since_block=max(0, parse_number(reported_transaction.get("slot")) - 1)
        )
