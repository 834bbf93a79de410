"""The tables, the same on SQLite and PostgreSQL; each noun's module documents its tables.

Ids are TEXT; times ending in `_us` are microseconds, others seconds, since the Unix epoch. Columns
are in the order of the dataclasses in `domain`, which a `Statement` of a whole table checks.
"""

from sqlalchemy import Table
from sqlmodel import SQLModel

from florin_server.db.tables.accounts import (
    ApiKeyRow,
    BankAccountRow,
    ConsoleSessionRow,
    DestinationRow,
    MerchantRow,
    PartnerRow,
    WalletAppRow,
)
from florin_server.db.tables.capture import CollectedDataRow
from florin_server.db.tables.conditions import ReportedConditionRow
from florin_server.db.tables.fields import METADATA
from florin_server.db.tables.held_money import HeldMoneyRow
from florin_server.db.tables.icons import IconRow
from florin_server.db.tables.ledger import JournalRow, TransferRow
from florin_server.db.tables.limits import (
    KeyTurnRow,
    ProcessRow,
    SharedBudgetRow,
    SharedHoldRow,
)
from florin_server.db.tables.operator import ExecutorPauseRow, GenerationRow, InstallationRow
from florin_server.db.tables.options import OptionCountRow, OptionRow, ResolvedBuildRow
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


partner = _table(PartnerRow)
api_key = _table(ApiKeyRow)
wallet_app = _table(WalletAppRow)
merchant = _table(MerchantRow)
settlement_dest = _table(DestinationRow)
bank_account = _table(BankAccountRow)
console_session = _table(ConsoleSessionRow)
payment = _table(PaymentRow)
payment_event = _table(PaymentEventRow)
payment_option = _table(OptionRow)
option_count = _table(OptionCountRow)
issued = _table(ResolvedBuildRow)
confirm = _table(ConfirmationRow)
refund = _table(RefundRow)
refund_event = _table(RefundEventRow)
payment_settled = _table(PaymentSettledRow)
covering_payout = _table(CoveringPayoutRow)
payment_effect = _table(PaymentEffectRow)
receipt_key = _table(ReceiptKeyRow)
executor_pause = _table(ExecutorPauseRow)
quarantined_item = _table(QuarantinedItemRow)
reported_condition = _table(ReportedConditionRow)
screening_list = _table(ScreeningListRow)
screened_address = _table(ScreenedAddressRow)
lease = _table(LeaseRow)
relayer = _table(RelayerRow)
chain_tx = _table(ChainTxRow)
chain_tx_bump = _table(ChainTxBumpRow)
chain_tx_item = _table(ChainTxItemRow)
watched_tx = _table(WatchedTxRow)
account_to_open = _table(AccountToOpenRow)
opened_account = _table(OpenedAccountRow)
failed_gas = _table(FailedGasRow)
payout = _table(PayoutRow)
held_money = _table(HeldMoneyRow)
nonce_account = _table(NonceAccountRow)
installation = _table(InstallationRow)
generation = _table(GenerationRow)
idempotency = _table(IdempotencyRow)
process = _table(ProcessRow)
shared_budget = _table(SharedBudgetRow)
shared_hold = _table(SharedHoldRow)
key_turn = _table(KeyTurnRow)
collected_data = _table(CollectedDataRow)
icon = _table(IconRow)
ledger_journal = _table(JournalRow)
ledger_transfer = _table(TransferRow)
webhook_endpoint = _table(WebhookEndpointRow)
webhook_secret = _table(WebhookSecretRow)
webhook_delivery = _table(WebhookDeliveryRow)
webhook_attempt = _table(WebhookAttemptRow)
