"""All sources of an export, in the order in which they are read.

What others refer to comes later than what refers to it, so that a running service, which goes on
meanwhile, leaves no posting or transaction behind whose payment is not there.
"""

from __future__ import annotations

from florin_server.store.exports.ledger import LEDGER
from florin_server.store.exports.money_out import PAYOUTS, REFUNDS
from florin_server.store.exports.payments import PAYMENTS
from florin_server.store.exports.roots import Source
from florin_server.store.exports.transactions import TRANSACTIONS

SOURCES: tuple[Source, ...] = (LEDGER, REFUNDS, PAYOUTS, TRANSACTIONS, PAYMENTS)
