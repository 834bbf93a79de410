"""Reports from the store of an installation, which may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from florin_server.accounts.store import merchants
from florin_server.app.exports.assets import build_asset_finder
from florin_server.app.exports.store import open_settings_reader
from florin_server.db.engine.reading import StoreReader
from florin_server.domain.exports.error import ExportError
from florin_server.domain.reports.assets import FindReportAsset
from florin_server.domain.reports.period import ReportPeriod
from florin_server.features.reports.service import payments as payment_rows
from florin_server.features.reports.service.journals import JournalFormat, render_journal
from florin_server.features.reports.service.statement import (
    MonthStatement,
    build_statement,
    read_statement,
)
from florin_server.features.reports.store import journals as journal_pages
from florin_server.features.reports.store.journals import ReportJournal
from florin_server.features.reports.store.payments import ReportPayment, find_payments
from florin_server.features.reports.store.scope import ReportScope
from florin_server.settings import Settings

# journals of a page, each with its transfers
_PAGE = 500


@dataclass(frozen=True, slots=True)
class StoreReports:
    """A store, the names of its assets, and its present time."""

    store: StoreReader
    find_asset: FindReportAsset
    now_us: int

    def find_scope(
        self, merchant_id: str | None, partner_id: str | None, *, live: bool
    ) -> tuple[ReportScope, str]:
        """Return a scope and the name of its merchant; ExportError if one does not exist."""
        if merchant_id is not None:
            merchant = self.store.read(merchants.find_merchant(merchant_id))
            if merchant is None:
                raise ExportError(f"merchant {merchant_id[:80]!r} does not exist")
            scope = ReportScope(merchant.live, merchant.partner_id, merchant.id)
            return scope, merchant.name
        if partner_id is not None:
            partner = self.store.read(merchants.find_partner(partner_id))
            if partner is None:
                raise ExportError(f"partner {partner_id[:80]!r} does not exist")
            return ReportScope(live, partner.id), ""
        return ReportScope(live), ""

    def read_statement(self, scope: ReportScope, period: ReportPeriod) -> MonthStatement:
        """Return a statement."""
        data = self.store.read(read_statement(scope, period))
        return build_statement(data, scope, period, self.find_asset, self.now_us)

    def list_payment_rows(self, scope: ReportScope, period: ReportPeriod) -> Iterator[list[str]]:
        """Yield the header and the rows of the payments of a period, page by page."""
        yield list(payment_rows.COLUMNS)
        for page in self._list_pages(scope, period):
            settlements = [journal for journal in page if payment_rows.is_settlement(journal)]
            yield from payment_rows.list_rows(
                settlements, self._find_payments(settlements, period), period, self.find_asset
            )

    def list_journal_lines(
        self, scope: ReportScope, period: ReportPeriod, format_: JournalFormat, *, daily: bool
    ) -> Iterator[str]:
        """Yield the lines of a journal for an accounting program, page by page."""
        journals = (journal for page in self._list_pages(scope, period) for journal in page)
        return render_journal(format_, journals, period, self.find_asset, daily=daily)

    def _list_pages(
        self, scope: ReportScope, period: ReportPeriod
    ) -> Iterator[list[ReportJournal]]:
        """Yield the journals of a scope, in short snapshots; they never change."""
        after = journal_pages.get_start(period)
        while page := self.store.read(journal_pages.read_page(period, after, _PAGE)):
            after = page[-1].at_us, page[-1].key
            yield [journal for journal in page if self._is_in_scope(journal, scope)]

    def _is_in_scope(self, journal: ReportJournal, scope: ReportScope) -> bool:
        if scope.merchant_id is not None:
            return journal.merchant_id == scope.merchant_id
        if scope.partner_id is not None:
            return journal.partner_id == scope.partner_id and journal.live is scope.live
        if journal.live is not None:
            return journal.live is scope.live
        # gas, opening balances and the operator's deposits belong to the mode of their chain
        modes = {self.find_asset(posting.asset).live for posting in journal.postings}
        return modes <= {scope.live, None}

    def _find_payments(
        self, journals: Iterable[ReportJournal], period: ReportPeriod
    ) -> Mapping[str, ReportPayment]:
        ids = sorted({journal.payment_id for journal in journals if journal.payment_id})
        return self.store.read(find_payments(ids, period.end_us))


@contextmanager
def open_report_source(settings: Settings) -> Iterator[StoreReports]:
    """Return the source of reports; nothing in the state folder is created or changed.

    SetupError, or ExportError, if no store exists that this release can read.
    """
    with open_settings_reader(settings) as (store, now_us):
        yield StoreReports(store, build_asset_finder(settings), now_us)
