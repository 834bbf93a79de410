"""Transactions that have ended: their outcome, their cost for the ledger, and their metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from florin_server.base.meters import Meters
from florin_server.domain.ledger import postings
from florin_server.domain.settlement.chain_txs import ChainTx, LedgerPosting, TransactionOutcome
from florin_server.rails.types import MinedTransaction

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction that has ended; `outcome` is stored.

    `mined` is None if another transaction took its nonce.
    """

    tx: ChainTx
    outcome: TransactionOutcome
    mined: MinedTransaction | None


def build_cost_postings(
    mined: MinedTransaction, account: str, coin: str
) -> tuple[LedgerPosting, ...]:
    """Return the postings of a transaction's cost for the account (CAIP-10) that paid it.

    A cost that no node reports is not posted: the next comparison with the chain shows it.
    """
    return postings.build_gas_postings(account, coin, mined.gas_cost or 0, mined.rent)


def count_transaction(
    meters: Meters, chain_id: str, payer: str, mined: MinedTransaction | None
) -> None:
    """Count the end of a transaction, and its fee; None if another transaction took its nonce."""
    if mined is None:
        meters.record_transaction(chain_id, "replaced")
        return
    meters.record_transaction(chain_id, "succeeded" if mined.success else "reverted")
    if mined.gas_cost is None:
        text = "%s: no node reports what transaction %s cost; the books lack that cost"
        _log.warning(text, chain_id, mined.tx_hash)
    else:
        meters.record_gas_cost(payer, mined.gas_cost)
