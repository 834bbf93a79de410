"""The archive: calendar months, and why a file of it cannot be used."""

from __future__ import annotations

from typing import NamedTuple

from florin_server.domain.payments import months
from florin_server.domain.payments.payment import PaymentStatus


class ArchiveError(Exception):
    """A file or the folder of the archive cannot be read or written; the message says why."""


class ArchiveMonth(NamedTuple):
    """A calendar month in UTC, as 2026-10, with the ids of the payments that were made in it.

    `first_id` is not above the first id, `end_id` is above the last.
    """

    name: str
    first_id: str
    end_id: str


class ArchivedCustomerPayment(NamedTuple):
    """A payment in a file of the archive, as far as it concerns a customer.

    `payer` is the account (canonical CAIP-10) whose money moved; None if none moved.
    """

    id: str
    version: int
    status: PaymentStatus
    created_at_us: int
    payer: str | None
    tx_id: str | None


def get_archive_month(at_us: int) -> ArchiveMonth:
    """Return the month of a time in microseconds since the Unix epoch."""
    month = months.get_month(at_us)
    return ArchiveMonth(
        months.format_month(month), months.get_first_id(month), months.get_first_id(month + 1)
    )


def find_archive_month(payment_id: str) -> ArchiveMonth | None:
    """Return the month in which a payment was made; None for an id without a time."""
    month = months.find_month(payment_id)
    return None if month is None else get_archive_month(months.get_start_us(month))


def get_archive_month_end_us(at_us: int) -> int:
    """Return the end of the month of a time in microseconds since the Unix epoch."""
    return months.get_start_us(months.get_month(at_us) + 1)


def get_archive_end_us(before_us: int) -> int:
    """Return the start of the first month that had not ended before a time."""
    return months.get_start_us(months.get_month(before_us))
