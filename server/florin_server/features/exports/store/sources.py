"""All sources of an export, in reading order.

A referenced table comes after the tables that reference it. A service that runs meanwhile therefore
leaves no posting or transaction without its payment.
"""

from __future__ import annotations

from florin_server.features.exports.store.ledger import LEDGER
from florin_server.features.exports.store.money_out import PAYOUTS, REFUNDS
from florin_server.features.exports.store.payments import PAYMENTS
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.transactions import TRANSACTIONS

SOURCES: tuple[ExportSource, ...] = (LEDGER, REFUNDS, PAYOUTS, TRANSACTIONS, PAYMENTS)
