"""Buyers' programs that sign payments of x402 on the embedded Solana cluster."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from typing import Any

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import make_transfer

AMOUNT = 12_345


def make_requirements(pay_to: str, fee_payer: str, **changes: Any) -> dict[str, Any]:
    """Return what a server requires on the embedded cluster."""
    return {
        "scheme": "exact",
        "network": SOLANA_DEVNET.chain_id,
        "asset": SOLANA_DEVNET.tokens[0].address,
        "amount": str(AMOUNT),
        "payTo": pay_to,
        "maxTimeoutSeconds": 60,
        "extra": {"feePayer": fee_payer},
        **changes,
    }


def list_steps(
    wallet: SolanaTestWallet, requirements: dict[str, Any], memo: str = ""
) -> list[Instruction]:
    """Return the instructions that clients of x402 send."""
    tokens = [token.address for token in SOLANA_DEVNET.tokens]
    token = tokens.index(requirements["asset"])
    return [
        set_compute_unit_limit(20_000),
        set_compute_unit_price(1),
        make_transfer(wallet, requirements["payTo"], int(requirements["amount"]), token),
        spl.create_memo(memo or requirements["extra"].get("memo") or secrets.token_hex(16)),
    ]


async def sign_steps(
    node: SolanaNodeClient,
    wallet: SolanaTestWallet,
    requirements: dict[str, Any],
    steps: Sequence[Instruction],
    *,
    fee_payer: str = "",
) -> dict[str, Any]:
    """Return a payment whose transaction has these instructions."""
    latest = await node.ask("getLatestBlockhash", {"commitment": "finalized"})
    relayer = Pubkey.from_string(fee_payer or requirements["extra"]["feePayer"])
    blockhash = Hash.from_string(latest["value"]["blockhash"])
    message = MessageV0.try_compile(relayer, list(steps), [], blockhash)
    own = wallet.key.sign_message(to_bytes_versioned(message))
    count = message.header.num_required_signatures
    signatures = [Signature.default()] * count
    if wallet.key.pubkey() in message.account_keys[:count]:
        signatures[message.account_keys.index(wallet.key.pubkey())] = own
    transaction = VersionedTransaction.populate(message, signatures)
    encoded = base64.b64encode(bytes(transaction)).decode()
    return {"x402Version": 2, "accepted": requirements, "payload": {"transaction": encoded}}
