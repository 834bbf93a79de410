"""The approval of Permit2, which a token without signatures of its own needs before it is signed.

A payment by a plain signature costs its account nothing. This approval is a transaction of the
account, so it is shown like every other one, and bounded by --max-fee.
"""

from __future__ import annotations

from collections.abc import Mapping

from florin_client.wallet import JsonRpc, Question, WalletError, read_permit2_allowance
from florin_client.wallet.chains import ChainProcedure

from florin_server.cli.wallet.addresses import SendableAsset
from florin_server.domain.chains.evm.typed_data import PERMIT2


def describe_approval(sendable: SendableAsset) -> str:
    """Return the beginning of a sentence: who must approve what."""
    price = sendable.asset.format(sendable.terms.amount)
    return f"{sendable.terms.account} must approve Permit2 ({PERMIT2}) for {price} first"


def read_allowance(nodes: Mapping[str, str], sendable: SendableAsset) -> int:
    """Return what Permit2 may move; WalletError if it is too little and cannot be approved."""
    if sendable.terms.chain_id not in nodes:
        text = "name a node with --rpc-url to do or to check that"
        raise WalletError(f"{describe_approval(sendable)}: {text}")
    return JsonRpc(nodes).run(_read_allowance(sendable))


def _read_allowance(sendable: SendableAsset) -> ChainProcedure[int]:
    terms = sendable.terms
    allowance = yield from read_permit2_allowance(terms)
    if allowance < terms.amount:
        balance = yield Question(terms.chain_id, "eth_getBalance", (terms.account, "latest"))
        if balance == "0x0":
            text = "it has no coin for that transaction"
            raise WalletError(f"{describe_approval(sendable)}: {text}")
    return allowance
