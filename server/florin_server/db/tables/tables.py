"""The tables, the same on SQLite and PostgreSQL; each noun's module documents its tables.

Ids are TEXT; times ending in `_us` are microseconds, others seconds, since the Unix epoch. Columns
are in the order of the dataclasses in `domain`, which a `Statement` of a whole table checks.

A variable is named after the entity of its rows: `confirmation_table` is the table `confirm`,
`resolved_build_table` is `issued`, and `destination_table` is `settlement_dest`.
"""

from sqlalchemy import Table
from sqlmodel import SQLModel

from florin_server.db.tables.accounts import (
    ApiKeyRow,
    ApiKeyUseRow,
    BankAccountRow,
    ConsoleSessionRow,
    ConsoleViewRow,
    DestinationRow,
    MerchantRow,
    PartnerRow,
    WalletAppRow,
)
from florin_server.db.tables.address_sweeps import AddressSweepRow
from florin_server.db.tables.archive import ArchivedPaymentRow, ArchiveFileRow
from florin_server.db.tables.audit import AuditEntryRow
from florin_server.db.tables.capture import CollectedDataRow
from florin_server.db.tables.conditions import ReportedConditionRow
from florin_server.db.tables.deposit_claims import DepositClaimRow
from florin_server.db.tables.deposits import (
    DepositAddressRow,
    DepositCursorRow,
    DepositEventRow,
    DepositRow,
)
from florin_server.db.tables.facilitation import FacilitatedGasRow, FacilitationRow
from florin_server.db.tables.fields import METADATA
from florin_server.db.tables.held_money import HeldMoneyRow
from florin_server.db.tables.hours import NodeHourRow, WebhookHourRow
from florin_server.db.tables.icons import IconRow
from florin_server.db.tables.ledger import FeeDebtorRow, JournalRow, TransferRow
from florin_server.db.tables.limits import (
    KeyTurnRow,
    ProcessRow,
    SharedBudgetRow,
    SharedHoldRow,
)
from florin_server.db.tables.operator import ExecutorPauseRow, GenerationRow, InstallationRow
from florin_server.db.tables.options import (
    OptionCountRow,
    OptionRow,
    ResolvedBuildRow,
    WatchedAddressRow,
)
from florin_server.db.tables.payment_notes import PaymentNoteRow
from florin_server.db.tables.payments import (
    ConfirmationRow,
    IdempotencyRow,
    PaymentEventRow,
    PaymentRow,
)
from florin_server.db.tables.payouts import (
    CoveringPayoutRow,
    PaymentSettledRow,
    PayoutRow,
    RefundEventRow,
    RefundRow,
)
from florin_server.db.tables.provisioning import AccountToOpenRow, NonceAccountRow, OpenedAccountRow
from florin_server.db.tables.quarantine import QuarantinedItemRow
from florin_server.db.tables.receipts import PaymentEffectRow, ReceiptKeyRow
from florin_server.db.tables.screening import ScreenedAddressRow, ScreeningListRow
from florin_server.db.tables.settlement import (
    ChainTxBumpRow,
    ChainTxItemRow,
    ChainTxRow,
    FailedGasRow,
    LeaseRow,
    RelayerRow,
    WatchedTxRow,
)
from florin_server.db.tables.webhooks import (
    WebhookAttemptRow,
    WebhookDeliveryRow,
    WebhookEndpointRow,
    WebhookSecretRow,
)

# importing this module registers all tables in it
__all__ = ["METADATA"]


def _table(row: type[SQLModel]) -> Table:
    return METADATA.tables[str(row.__tablename__)]


partner_table = _table(PartnerRow)
api_key_table = _table(ApiKeyRow)
api_key_use_table = _table(ApiKeyUseRow)
wallet_app_table = _table(WalletAppRow)
merchant_table = _table(MerchantRow)
destination_table = _table(DestinationRow)
bank_account_table = _table(BankAccountRow)
console_session_table = _table(ConsoleSessionRow)
console_view_table = _table(ConsoleViewRow)
payment_table = _table(PaymentRow)
payment_note_table = _table(PaymentNoteRow)
payment_event_table = _table(PaymentEventRow)
payment_option_table = _table(OptionRow)
option_count_table = _table(OptionCountRow)
resolved_build_table = _table(ResolvedBuildRow)
watched_address_table = _table(WatchedAddressRow)
deposit_address_table = _table(DepositAddressRow)
deposit_table = _table(DepositRow)
deposit_event_table = _table(DepositEventRow)
deposit_cursor_table = _table(DepositCursorRow)
address_sweep_table = _table(AddressSweepRow)
confirmation_table = _table(ConfirmationRow)
archive_file_table = _table(ArchiveFileRow)
archived_payment_table = _table(ArchivedPaymentRow)
refund_table = _table(RefundRow)
refund_event_table = _table(RefundEventRow)
payment_settled_table = _table(PaymentSettledRow)
covering_payout_table = _table(CoveringPayoutRow)
payment_effect_table = _table(PaymentEffectRow)
receipt_key_table = _table(ReceiptKeyRow)
executor_pause_table = _table(ExecutorPauseRow)
audit_entry_table = _table(AuditEntryRow)
quarantined_item_table = _table(QuarantinedItemRow)
reported_condition_table = _table(ReportedConditionRow)
screening_list_table = _table(ScreeningListRow)
screened_address_table = _table(ScreenedAddressRow)
lease_table = _table(LeaseRow)
relayer_table = _table(RelayerRow)
chain_tx_table = _table(ChainTxRow)
chain_tx_bump_table = _table(ChainTxBumpRow)
chain_tx_item_table = _table(ChainTxItemRow)
watched_tx_table = _table(WatchedTxRow)
account_to_open_table = _table(AccountToOpenRow)
opened_account_table = _table(OpenedAccountRow)
failed_gas_table = _table(FailedGasRow)
facilitation_table = _table(FacilitationRow)
facilitated_gas_table = _table(FacilitatedGasRow)
payout_table = _table(PayoutRow)
held_money_table = _table(HeldMoneyRow)
deposit_claim_table = _table(DepositClaimRow)
nonce_account_table = _table(NonceAccountRow)
installation_table = _table(InstallationRow)
generation_table = _table(GenerationRow)
idempotency_table = _table(IdempotencyRow)
process_table = _table(ProcessRow)
shared_budget_table = _table(SharedBudgetRow)
shared_hold_table = _table(SharedHoldRow)
key_turn_table = _table(KeyTurnRow)
collected_data_table = _table(CollectedDataRow)
icon_table = _table(IconRow)
ledger_journal_table = _table(JournalRow)
ledger_transfer_table = _table(TransferRow)
fee_debtor_table = _table(FeeDebtorRow)
webhook_endpoint_table = _table(WebhookEndpointRow)
webhook_secret_table = _table(WebhookSecretRow)
webhook_delivery_table = _table(WebhookDeliveryRow)
webhook_attempt_table = _table(WebhookAttemptRow)
webhook_hour_table = _table(WebhookHourRow)
node_hour_table = _table(NodeHourRow)
