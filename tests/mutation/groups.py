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
    "domain": Group(("domain/**/*.py",), ("unit/**/test_*.py",)),
    "confirm": Group(
        ("money/payments/service/confirm.py",),
        (
            "contract/money/settlement/test_settler.py",
            "contract/money/settlement/test_settler_budgets.py",
            "contract/money/settlement/test_settler_reorg.py",
            "e2e/screening/test_blocked_accounts.py",
            "contract/money/payments/test_builds.py",
            "e2e/payments/test_removed_chain.py",
            "contract/compliance/buyer_data/test_capture.py",
            "contract/compliance/buyer_data/test_capture_third_parties.py",
            "contract/money/payments/test_confirm.py",
            "contract/money/payments/test_confirm_races.py",
            "contract/api/test_deadlines.py",
            "e2e/payments/test_payment_events.py",
            "e2e/screening/test_sanctions.py",
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
            "contract/money/settlement/test_settler*.py",
            # the chain whose blocks are not read
            "contract/rails/solana/test_solana_nonces.py",
            "e2e/solana/test_solana_quotes.py",
            "e2e/solana/test_solana_receiving.py",
            "e2e/solana/test_solana_payments.py",
        ),
    ),
    "journal": Group(
        ("money/settlement/store/chain_txs.py",),
        (
            "contract/money/settlement/test_settler*.py",
            "contract/money/settlement/test_store_journal*.py",
        ),
    ),
    "ledger": Group(
        ("money/ledger/store/ledger.py",),
        ("contract/money/ledger/test_books.py", "contract/**/test_store_*.py"),
    ),
    "payouts": Group(
        (
            "money/payouts/service/payouts.py",
            "money/payouts/store/payouts.py",
            "money/payouts/worker/pay_out.py",
        ),
        (
            "contract/money/payouts/test_pay_out*.py",
            "e2e/payouts/test_payout*.py",
            "e2e/refunds/test_refunds.py",
            "e2e/payouts/test_watched_payouts.py",
        ),
    ),
    "auth": Group(
        ("api/server/auth.py",),
        (
            "contract/api/test_authenticator.py",
            "contract/api/test_operator_listener.py",
            "unit/api/test_access_rules.py",
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
            "contract/idempotency/test_shared_turns.py",
            "contract/idempotency/test_store_races.py",
            "contract/idempotency/test_guarded_keys.py",
            "e2e/idempotency/test_idempotency.py",
            "e2e/accounts/test_merchants.py",
            "unit/idempotency/test_idempotency_keys.py",
            "wire/test_shared_budgets.py",
            "wire/test_account_cache.py",
            "wire/test_credential_status.py",
        ),
        # where other processes share the store
        (postgres.SQLITE, postgres.POSTGRES),
    ),
    "limits": Group(
        ("limits/service/limits.py",),
        ("unit/limits/test_limits.py", "wire/test_shared_budgets.py", "wire/test_limits.py"),
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
            "contract/*/test_shared_*.py",
            "unit/limits/test_limits.py",
            "unit/limits/test_stream_slots.py",
            "unit/domain/test_pending_counts.py",
        ),
        (postgres.SQLITE, postgres.POSTGRES),
    ),
    "evidence": Group(
        ("rails/*/reading/evidence.py",),
        ("contract/rails/*/test_rail_*.py", "contract/money/settlement/test_settler_reorg.py"),
    ),
}
