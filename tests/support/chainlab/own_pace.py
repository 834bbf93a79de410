"""Tests of the suites that cannot run under a profile, each group with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_UNSEEN: Final = (
    "it has blocks made that no one looks at, and counts on their number: where time makes a "
    "payment final, they are so only once they were seen for as long"
)
_COUNTS: Final = (
    "it counts blocks, calls or transactions: a step of a profile has more of each than one block"
)
_CLOCK: Final = "it sets its own times, which the blocks of a profile move on"
_WATCH: Final = "it counts the blocks after which the watch ends, which is sooner in steps"
_STATES: Final = "it goes further back than the 128 states that the embedded chain keeps"
_GAS: Final = "it names amounts of gas, which are others at the prices of a profile"
_SLOW: Final = "its payments end before blocks of twelve seconds make anything final"

_AT_ONCE: Final = (
    "it looks between landing and finality: in this lab each transaction takes a slot, and with "
    "Alpenglow the next slot makes it final"
)

SKIPPED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    _UNSEEN: {
        "money/payouts/test_pay_out_polling.py": (
            "test_a_block_is_final_only_while_it_is_part_of_the_chain",
            "test_a_block_that_nodes_differ_about_proves_nothing",
        ),
        "money/payouts/test_pay_out_reorg.py": (
            "test_a_refund_that_had_succeeded_is_not_called_off",
        ),
        "money/settlement/test_settler.py": (
            "test_a_settlement_that_moves_below_the_block_of_its_confirm",
            "test_payment_final_during_downtime_succeeds_after_restart",
            "test_an_authorization_that_was_used_before_it_lapsed_is_no_failure",
        ),
        "money/settlement/test_settler_nodes.py": ("test_an_outage_never_ends_a_payment",),
        "money/settlement/test_settler_pause.py": (
            "test_payment_settled_by_a_stranger_during_a_pause_succeeds",
            "test_an_authorization_that_lapses_during_a_pause",
        ),
        "money/settlement/test_settler_third_parties.py": (
            "test_a_node_that_refuses_keeps_nothing_else_from_being_settled",
            "test_it_is_bound_once_the_event_is_final",
            "test_it_is_bound_only_once_it_is_final",
            "test_many_missed_blocks_are_read_in_parts",
            "test_only_offered_references_are_searched_after_a_long_downtime",
            "test_direct_settlement_during_downtime_is_detected_at_startup",
        ),
        "money/settlement/test_settler_unconfirmed.py": (
            "test_a_true_hash_is_looked_for_since_the_option_was_offered",
            "test_event_missing_from_a_node_is_detected_when_its_block_is_reread",
            "test_transaction_sent_without_fetch_during_downtime_pays",
            "test_money_received_during_downtime_for_an_expired_payment_is_returned",
            "test_payment_sent_before_fetch_is_bound_after_a_restart",
        ),
    },
    _COUNTS: {
        "money/payouts/test_pay_out.py": (
            "test_a_payout_after_a_long_rest_offers_more_only_when_blocks_passed_since",
        ),
        "money/settlement/test_settler_blocked.py": (
            "test_payment_by_a_fee_bump_sent_before_the_block_succeeds",
        ),
        "money/settlement/test_settler_fees.py": (
            "test_a_raised_transaction_that_was_lost_is_sent_again_as_it_was_raised",
            "test_unmined_transaction_raises_its_fee_after_three_blocks",
            "test_blocks_that_are_read_late_raise_nothing",
            "test_original_transaction_may_be_mined_after_a_fee_bump",
            "test_only_the_transaction_with_the_lowest_nonce_is_bumped",
        ),
        "money/settlement/test_settler_gas.py": (
            "test_an_account_that_turns_by_block_number_fails_once",
            "test_a_payment_costs_three_transactions_at_most",
            "test_a_restart_keeps_the_counts",
        ),
        "money/settlement/test_settler_third_parties.py": (
            "test_where_a_chain_is_read_to_is_not_written_down_for_every_block",
        ),
        "money/settlement/test_settler_call_counts.py": (
            "test_a_new_block_costs_three_calls_while_a_payment_is_open",
            "test_node_that_refuses_log_ranges_is_read_block_by_block",
            "test_new_blocks_cost_two_calls_while_no_payment_is_open",
            "test_gas_price_is_requested_once_per_block_for_all_transactions",
        ),
        "money/settlement/test_settler_unconfirmed.py": (
            "test_settlement_by_a_stranger_under_node_disagreement_is_detected_later",
            "test_late_money_that_nodes_differ_about_goes_back_once_they_agree",
            "test_twenty_thousand_foreign_events_are_dropped",
            "test_evidence_of_deep_blocks_is_dropped_except_for_awaited_references",
        ),
        "money/settlement/test_settler_turns.py": (
            "test_nothing_is_sent_while_blocks_are_not_understood",
        ),
    },
    _CLOCK: {
        "money/payouts/test_pay_out_lease.py": (
            "test_without_the_lease_nothing_is_sent_until_it_is_free",
        ),
        "money/settlement/test_settler.py": (
            "test_an_overspent_payment_fails_once_its_authorization_lapsed",
            "test_receipts_that_are_null_prove_nothing",
        ),
        "money/settlement/test_settler_budgets.py": ("test_old_gas_losses_are_deleted",),
        "money/settlement/test_settler_fees.py": (
            "test_a_payment_whose_transaction_failed_goes_out_with_another_key",
            "test_nothing_is_sent_that_cannot_be_mined_in_time",
        ),
        "money/settlement/test_settler_retries.py": (
            "test_a_payment_of_another_transaction_is_left_where_it_is",
            "test_a_payment_that_waits_for_its_time_is_due_when_it_was",
            "test_an_item_that_failed_is_tried_again_after_a_restart_at_that_moment",
        ),
        "money/settlement/test_settler_gas_prices.py": (
            "test_account_creation_that_ran_out_of_our_gas_settles_and_charges_no_budget",
            "test_payment_that_ran_out_of_our_gas_settles_and_charges_no_budget",
        ),
        "money/settlement/test_settler_idle.py": (
            "test_event_with_a_late_log_is_detected_when_its_block_is_final",
        ),
        "money/settlement/test_settler_larger_amounts.py": (
            "test_amount_from_the_bound_on_is_final_later",
            "test_changed_finality_amounts_apply_to_open_payments_after_a_restart",
            "test_amounts_in_the_same_block_become_final_at_their_own_time",
            "test_larger_amount_is_paid_again_after_a_reorganization_that_small_ones_do_not_outlast",
            "test_node_vouches_for_an_amount_only_when_it_is_final_there",
            "test_promise_and_progress_of_a_larger_amount_are_its_own",
        ),
        "money/settlement/test_settler_observations.py": (
            "test_clock_that_was_wrong_makes_nothing_older_than_its_block",
            "test_heads_are_written_every_few_seconds_and_while_something_is_open",
            "test_changed_block_pace_is_a_condition_until_it_becomes_usual",
            "test_eta_follows_observed_payment_times_and_survives_a_restart",
            "test_restart_counts_no_head_of_a_chain_that_was_replaced",
            "test_restart_makes_a_payment_wait_for_no_longer",
        ),
    },
    _WATCH: {
        "money/payouts/test_pay_out_reorg.py": ("test_payout_deep_enough_is_no_longer_watched",),
        "money/settlement/test_settler_reorg.py": (
            "test_deep_reorg_is_unbooked_reported_and_settled_again",
            "test_payment_deep_enough_is_no_longer_watched",
        ),
    },
    _STATES: {
        "money/payouts/test_pay_out.py": ("test_nonce_taken_long_ago_is_detected",),
        "money/payouts/test_pay_out_service.py": (
            "test_health_reports_head_open_transactions_and_every_problem",
        ),
    },
    _GAS: {
        "money/payouts/test_pay_out.py": (
            "test_a_receiver_cannot_make_the_treasury_burn_gas",
            "test_a_transfer_that_fails_on_chain_waits_again",
            "test_a_treasury_without_coin_for_gas_sends_nothing",
        ),
        "money/payouts/test_pay_out_reorg.py": (
            "test_reverted_failed_transfer_is_followed_again_and_not_repeated",
            "test_a_failed_transfer_whose_payout_was_called_off_is_not_sent_again",
            "test_nonce_of_a_refused_payout_is_filled_after_a_reorg",
        ),
        "money/settlement/test_settler_gas.py": (
            "test_money_that_moves_away_between_trial_and_block",
            "test_an_item_of_many_is_charged_its_share",
        ),
        "money/settlement/test_settler_budgets.py": (
            "test_accounts_that_are_created_have_a_budget_of_their_own",
            "test_no_more_is_on_its_way_than_a_budget_covers",
        ),
    },
    _SLOW: {
        "money/settlement/test_settler_fees.py": (
            "test_fees_rise_again_and_again_but_never_above_the_limit",
        ),
        "money/settlement/test_settler_unconfirmed.py": (
            "test_settlement_by_a_stranger_before_the_confirm_is_detected",
        ),
    },
    _AT_ONCE: {
        "rails/solana/test_rail_solana.py": (
            "test_money_that_is_gone_when_it_lands_is_a_failure_for_good",
        ),
        "rails/solana/test_rail_solana_coin.py": (
            "test_a_payment_in_coin_is_proven_when_it_is_final_and_not_before",
        ),
        "rails/solana/test_rail_solana_fields.py": (
            "test_finalized_tag_beside_a_count_of_confirmations_is_no_proof",
        ),
    },
}

_DEEP: Final = {
    "money/payouts/test_pay_out_reorg.py": (
        "test_moved_transaction_that_is_final_completes_without_a_new_block",
    ),
    "money/payouts/test_pay_out_resolved.py": (
        "test_a_word_is_taken_back_by_a_deep_reorganisation",
    ),
}
_TAKEN: Final = {
    "money/payouts/test_pay_out_lost.py": (
        "test_deployment_with_the_treasury_key_is_not_reported_as_a_loss",
    ),
}
# by profile, which passes all others
SKIPPED_UNDER: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]] = {
    "base": {_STATES: _TAKEN},
    "halt": {_STATES: _TAKEN},
    "repeated-timestamps": {_STATES: _TAKEN, _WATCH: _DEEP},
    "sequencer-restart": {
        _COUNTS: {
            "money/payouts/test_pay_out_reorg.py": (
                "test_a_block_that_comes_while_it_looks_back_is_not_passed_over",
            ),
        },
        _STATES: _TAKEN,
        _WATCH: _DEEP
        | {
            "money/settlement/test_settler_blocked.py": (
                "test_held_money_that_a_reorganisation_undid_is_held_when_it_comes_again",
                "test_released_money_that_a_reorganisation_undid_is_settled_when_it_comes_again",
                "test_held_money_that_a_reorg_undoes_is_not_returned",
                "test_held_money_already_returned_is_not_returned_again_after_a_reorg",
            ),
        },
    },
}


def find_skip_reason(profile: str, path: str, function: str) -> str | None:
    """Return why a test cannot run under a profile, or None if it can.

    The path is relative to `tests/contract`.
    """
    reasons = (*SKIPPED.items(), *SKIPPED_UNDER.get(profile, {}).items())
    return next((why for why, files in reasons if function in files.get(path, ())), None)
