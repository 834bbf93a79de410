"""All sources of an export, in reading order.

A referenced table comes after the tables that reference it. A service that runs meanwhile therefore
leaves no posting or transaction without its payment.
"""

from __future__ import annotations

from florin_server.store.exports.ledger import LEDGER
from florin_server.store.exports.money_out import PAYOUTS, REFUNDS
from florin_server.store.exports.payments import PAYMENTS
from florin_server.store.exports.roots import ExportSource
from florin_server.store.exports.transactions import TRANSACTIONS

SOURCES: tuple[ExportSource, ...] = (LEDGER, REFUNDS, PAYOUTS, TRANSACTIONS, PAYMENTS)
