"""Groups of mutated modules, and the tests that must kill their mutants.

A mutant runs against those of the tests that call its function. Tests that start whole services
call nearly all functions, so each group names the tests of its subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support import postgres


@dataclass(frozen=True, slots=True)
class Group:
    """Modules, as globs below the package, and tests, as globs below `tests`.

    Tests of several stores run on `stores`; most modules behave the same on all of them.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    stores: tuple[str, ...] = (postgres.SQLITE,)


GROUPS = {
    "domain": Group(("domain/**/*.py",), ("unit/test_*.py",)),
    "confirm": Group(
        ("money/payments/service/confirm.py",),
        (
            "contract/settlement/test_settler.py",
            "contract/settlement/test_settler_budgets.py",
            "contract/settlement/test_settler_reorg.py",
            "e2e/operator/test_blocked_accounts.py",
            "e2e/payments/test_builds.py",
            "e2e/payments/test_removed_chain.py",
            "e2e/capture/test_capture.py",
            "e2e/capture/test_capture_third_parties.py",
            "e2e/payments/test_confirm.py",
            "e2e/payments/test_confirm_races.py",
            "e2e/payments/test_deadlines.py",
            "e2e/payments/test_payment_events.py",
            "e2e/operator/test_sanctions.py",
            "e2e/solana/test_solana_receiving.py",
            "e2e/solana/test_solana_rent.py",
            "wire/test_shared_budgets.py",
            "wire/test_credential_status.py",
        ),
    ),
    "settle": Group(
        (
            "money/settlement/worker/blocks.py",
            "money/settlement/worker/payment_finalizer.py",
            "money/settlement/worker/open_payments.py",
            "money/settlement/worker/senders.py",
            "money/settlement/worker/settle.py",
            "money/settlement/worker/signing_key.py",
            "money/settlement/worker/submit.py",
            "money/settlement/worker/transaction_queue.py",
        ),
        (
            "contract/settlement/test_settler*.py",
            # the chain whose blocks are not read
            "e2e/solana/test_solana_nonces.py",
            "e2e/solana/test_solana_quotes.py",
            "e2e/solana/test_solana_receiving.py",
            "e2e/solana/test_solana_payments.py",
        ),
    ),
    "journal": Group(
        (
            "money/settlement/store/chain_txs.py",
            "money/settlement/store/payment_outcomes.py",
            "money/settlement/store/settlement_items.py",
        ),
        ("contract/settlement/test_settler*.py", "contract/store/test_store_journal*.py"),
    ),
    "ledger": Group(
        ("money/ledger/store/ledger.py",),
        ("contract/ledger/test_books.py", "contract/store/test_store_*.py"),
    ),
    "payouts": Group(
        (
            "money/payouts/service/payouts.py",
            "money/payouts/store/payouts.py",
            "money/payouts/worker/pay_out.py",
        ),
        (
            "contract/payouts/test_pay_out*.py",
            "e2e/payouts/test_payout*.py",
            "e2e/payouts/test_refunds.py",
            "e2e/payouts/test_watched_payouts.py",
        ),
    ),
    "auth": Group(
        ("api/server/auth.py",),
        (
            "contract/access/test_authenticator.py",
            "e2e/operator/test_operator_listener.py",
            "unit/test_access_rules.py",
            "wire/test_credentials.py",
            "wire/test_shared_budgets.py",
            "wire/test_matrix.py",
            "wire/test_account_cache.py",
            "wire/test_tenancy.py",
        ),
    ),
    "idempotency": Group(
        (
            "api/server/idempotency.py",
            "idempotency/service.py",
            "idempotency/store/responses.py",
        ),
        (
            "contract/access/test_shared_turns.py",
            "contract/store/test_store_races.py",
            "e2e/payments/test_guarded_keys.py",
            "e2e/payments/test_idempotency.py",
            "e2e/accounts/test_merchants.py",
            "unit/test_idempotency_keys.py",
            "wire/test_shared_budgets.py",
            "wire/test_account_cache.py",
            "wire/test_credential_status.py",
        ),
        # where other processes share the store
        (postgres.SQLITE, postgres.POSTGRES),
    ),
    "limits": Group(
        ("limits/service/limits.py",),
        ("unit/test_limits.py", "wire/test_shared_budgets.py", "wire/test_limits.py"),
    ),
    "shared limits": Group(
        (
            "api/server/key_leases.py",
            "domain/pending_counts.py",
            "idempotency/store/key_leases.py",
            "limits/service/limit.py",
            "limits/service/stream_slots.py",
            "limits/service/shared_limits.py",
            "limits/store.py",
        ),
        (
            "contract/access/test_shared_*.py",
            "unit/test_limits.py",
            "unit/test_stream_slots.py",
            "unit/test_pending_counts.py",
        ),
        (postgres.SQLITE, postgres.POSTGRES),
    ),
    "evidence": Group(
        ("rails/*/reading/evidence.py", "rails/evm/reading/receipts.py"),
        ("contract/*/test_rail_*.py", "contract/settlement/test_settler_reorg.py"),
    ),
}
