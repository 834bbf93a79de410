"""What transactions cost, as the books and the metrics have it."""

from __future__ import annotations

import logging

from florin_server.domain.ledger import postings
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.meters import Meters
from florin_server.rails.types import Mined

_log = logging.getLogger(__name__)


def costs_of(mined: Mined, account: str, coin: str) -> tuple[Posting, ...]:
    """Return the postings of what a transaction cost the account (CAIP-10) that paid for it.

    A cost that no node reports is not booked: the next comparison with the chain shows it.
    """
    return postings.spent(account, coin, mined.gas_cost or 0, mined.rent)


def count_ended(meters: Meters, chain_id: str, payer: str, mined: Mined | None) -> None:
    """Count how a transaction ended, and its fee; None if another one took its nonce."""
    if mined is None:
        meters.transaction(chain_id, "replaced")
        return
    meters.transaction(chain_id, "succeeded" if mined.success else "reverted")
    if mined.gas_cost is None:
        text = "%s: no node reports what transaction %s cost; the books lack that cost"
        _log.warning(text, chain_id, mined.tx_hash)
    else:
        meters.gas(payer, mined.gas_cost)
