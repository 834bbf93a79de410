"""Archived payments of a customer, for a command that reads the folder itself.

No index leads from accounts to files, so all of them are read. No call of the service does that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from florin_server.domain.archive import ArchivedCustomerPayment
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.store.files import ArchiveFile


def list_customer_payments(
    folder: ArchiveFolder, files: Sequence[ArchiveFile], account: str, payment_ids: Collection[str]
) -> list[ArchivedCustomerPayment]:
    """Return the payments that an account paid, or that have one of some ids, the newest first.

    `files` are all files of the store, in the order of their numbers. Of a payment in several
    files, the valid version is returned. ArchiveError if a file is not as it was written.
    """
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    valid: dict[str, ArchivedCustomerPayment] = {}
    for file in files:
        if file.has_transactions:
            continue
        folder.verify(file)
        ids = [each for each in payment_ids if file.first_id <= each <= file.last_id]
        for payment in parquet.iterate_customer_payments(folder.get_path(file), account, ids):
            # of two equal versions, the later file is valid
            if payment.id not in valid or payment.version >= valid[payment.id].version:
                valid[payment.id] = payment
    return sorted(
        valid.values(), key=lambda payment: (payment.created_at_us, payment.id), reverse=True
    )
