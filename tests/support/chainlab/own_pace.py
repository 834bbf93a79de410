"""Tests of the suites that cannot be run under a profile, each group with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_UNSEEN: Final = (
    "it has blocks made that nobody looks at, and counts on their number: where time makes a "
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
        "payouts/test_pay_out_looks.py": (
            "test_a_block_is_final_only_while_it_is_part_of_the_chain",
            "test_a_block_that_nodes_differ_about_proves_nothing",
        ),
        "payouts/test_pay_out_reorg.py": ("test_a_refund_that_had_succeeded_is_not_called_off",),
        "settlement/test_settler.py": (
            "test_a_settlement_that_moves_below_the_block_of_its_confirm",
            "test_what_became_final_while_nobody_looked",
            "test_an_authorization_that_was_used_before_it_lapsed_is_no_failure",
            "test_an_outage_never_ends_a_payment",
        ),
        "settlement/test_settler_pause.py": (
            "test_a_payment_that_others_settle_during_a_pause",
            "test_an_authorization_that_lapses_during_a_pause",
        ),
        "settlement/test_settler_strangers.py": (
            "test_a_node_that_refuses_keeps_nothing_else_from_being_settled",
            "test_it_is_bound_once_the_event_is_final",
            "test_it_is_bound_only_once_it_is_final",
            "test_many_blocks_are_read_one_part_after_the_other",
            "test_of_what_is_too_long_ago_only_what_was_offered_is_asked_for",
            "test_what_happened_while_florin_was_down_is_found_at_start",
        ),
        "settlement/test_settler_unconfirmed.py": (
            "test_a_true_hash_is_looked_for_since_the_option_was_offered",
            "test_event_that_a_node_lacked_is_found_when_its_block_is_read_again",
            "test_what_a_wallet_sends_without_fetch_while_florin_is_down_pays",
            "test_what_comes_while_florin_is_down_and_its_payment_expires_goes_back",
            "test_what_was_paid_before_it_was_fetched_is_found_after_a_restart",
        ),
    },
    _COUNTS: {
        "payouts/test_pay_out.py": (
            "test_a_payout_after_a_long_rest_offers_more_only_when_blocks_passed_since",
        ),
        "settlement/test_settler_blocked.py": (
            "test_what_we_signed_again_for_a_higher_fee_is_ours_too",
        ),
        "settlement/test_settler_fees.py": (
            "test_a_raised_transaction_that_was_lost_is_sent_again_as_it_was_raised",
            "test_a_transaction_that_nobody_mines_offers_more_after_three_blocks",
            "test_blocks_that_are_read_late_raise_nothing",
            "test_the_first_variant_may_still_be_the_one_that_is_mined",
            "test_what_waits_behind_another_is_not_raised",
        ),
        "settlement/test_settler_gas.py": (
            "test_an_account_that_turns_by_block_number_fails_once",
            "test_a_payment_costs_three_transactions_at_most",
            "test_a_restart_keeps_the_counts",
        ),
        "settlement/test_settler_quarantine.py": (
            "test_dead_transaction_that_is_set_aside_keeps_no_other_from_a_higher_fee",
        ),
        "settlement/test_settler_strangers.py": (
            "test_where_a_chain_is_read_to_is_not_written_down_for_every_block",
        ),
        "settlement/test_settler_thrift.py": (
            "test_a_new_block_costs_three_calls_while_a_payment_is_open",
            "test_a_node_that_refuses_logs_of_ranges_is_asked_block_by_block",
            "test_new_blocks_cost_two_calls_while_nobody_pays",
            "test_what_gas_costs_is_asked_once_for_all_that_is_sent_between_two_blocks",
        ),
        "settlement/test_settler_unconfirmed.py": (
            "test_what_a_stranger_settled_and_nodes_differ_about_is_found_again",
            "test_late_money_that_nodes_differ_about_goes_back_once_they_agree",
            "test_twenty_thousand_events_of_others_are_forgotten",
            "test_what_is_known_of_deep_blocks_is_dropped_but_for_what_is_waited_for",
        ),
        "settlement/test_settler_turns.py": (
            "test_nothing_is_sent_while_blocks_are_not_understood",
        ),
    },
    _CLOCK: {
        "payouts/test_pay_out_lease.py": (
            "test_without_the_lease_nothing_is_sent_until_it_is_free",
        ),
        "settlement/test_settler.py": (
            "test_an_overspent_payment_fails_once_its_authorization_lapsed",
            "test_receipts_that_are_null_prove_nothing",
        ),
        "settlement/test_settler_budgets.py": ("test_what_was_lost_long_ago_is_deleted",),
        "settlement/test_settler_fees.py": (
            "test_a_payment_whose_transaction_failed_goes_out_with_another_key",
            "test_nothing_is_sent_that_cannot_be_mined_in_time",
        ),
        "settlement/test_settler_freed.py": (
            "test_a_payment_of_another_transaction_is_left_where_it_is",
            "test_a_payment_that_waits_for_its_time_is_due_when_it_was",
            "test_an_item_that_failed_is_tried_again_after_a_restart_at_that_moment",
        ),
        "settlement/test_settler_gas_prices.py": (
            "test_account_creation_that_ran_out_of_our_gas_settles_and_charges_no_budget",
            "test_payment_that_ran_out_of_our_gas_settles_and_charges_no_budget",
        ),
        "settlement/test_settler_idle.py": (
            "test_event_whose_log_was_late_is_found_when_its_block_is_final",
        ),
        "settlement/test_settler_larger_amounts.py": (
            "test_amount_from_the_bound_on_is_final_later",
            "test_changed_amounts_count_after_a_restart_for_what_is_open",
            "test_each_amount_of_one_block_is_final_in_its_time",
            "test_larger_amount_is_paid_again_after_a_reorganization_that_small_ones_do_not_outlast",
            "test_node_vouches_for_an_amount_only_when_it_is_final_there",
            "test_promise_and_progress_of_a_larger_amount_are_its_own",
        ),
        "settlement/test_settler_observations.py": (
            "test_clock_that_was_wrong_makes_nothing_older_than_its_block",
            "test_heads_are_written_every_few_seconds_and_while_something_is_open",
            "test_pace_that_changes_is_a_condition_until_it_is_the_usual_one",
            "test_promises_follow_what_payments_took_and_outlive_a_restart",
            "test_restart_counts_no_head_of_a_chain_that_was_replaced",
            "test_restart_makes_a_payment_wait_for_no_longer",
        ),
    },
    _WATCH: {
        "payouts/test_pay_out_reorg.py": ("test_what_is_deep_enough_is_watched_no_longer",),
        "settlement/test_settler_reorg.py": (
            "test_a_deep_reorganisation_is_taken_back_told_and_paid_again",
            "test_what_is_deep_enough_is_watched_no_longer",
        ),
    },
    _STATES: {
        "payouts/test_pay_out.py": ("test_a_nonce_that_was_taken_long_ago_is_found",),
        "payouts/test_pay_out_flows.py": ("test_health_tells_head_transactions_and_every_problem",),
    },
    _GAS: {
        "payouts/test_pay_out.py": (
            "test_a_receiver_cannot_make_the_treasury_burn_gas",
            "test_a_transfer_that_fails_on_chain_waits_again",
            "test_a_treasury_without_coin_for_gas_sends_nothing",
        ),
        "payouts/test_pay_out_reorg.py": (
            "test_a_failed_transfer_that_is_undone_is_followed_again_and_not_made_twice",
            "test_a_failed_transfer_whose_payout_was_called_off_is_not_sent_again",
            "test_the_nonce_of_what_must_not_pay_again_is_filled",
        ),
        "settlement/test_settler_gas.py": (
            "test_money_that_moves_away_between_trial_and_block",
            "test_an_item_of_many_is_charged_its_share",
        ),
        "settlement/test_settler_budgets.py": (
            "test_accounts_that_are_created_have_a_budget_of_their_own",
            "test_no_more_is_on_its_way_than_a_budget_covers",
        ),
    },
    _SLOW: {
        "settlement/test_settler_fees.py": (
            "test_fees_rise_again_and_again_but_never_above_the_limit",
        ),
        "settlement/test_settler_unconfirmed.py": (
            "test_what_was_signed_and_settled_by_others_before_its_confirm_is_found",
        ),
    },
    _AT_ONCE: {
        "solana/test_rail_solana.py": (
            "test_money_that_is_gone_when_it_lands_is_a_failure_for_good",
        ),
        "solana/test_rail_solana_coin.py": (
            "test_a_payment_in_coin_is_proven_when_it_is_final_and_not_before",
        ),
        "solana/test_rail_solana_fields.py": (
            "test_finalized_tag_beside_a_count_of_confirmations_is_no_proof",
        ),
    },
}

_DEEP: Final = {
    "payouts/test_pay_out_reorg.py": (
        "test_what_moved_and_is_deep_enough_is_done_without_another_block",
    ),
    "payouts/test_pay_out_resolved.py": ("test_a_word_is_taken_back_by_a_deep_reorganisation",),
}
_TAKEN: Final = {
    "payouts/test_pay_out_lost.py": (
        "test_what_chain_deploy_sends_with_the_key_of_a_treasury_is_no_loss",
    ),
}
# by profile, which passes all others
SKIPPED_UNDER: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]] = {
    "halt": {_STATES: _TAKEN},
    "repeated-timestamps": {_STATES: _TAKEN, _WATCH: _DEEP},
    "sequencer-restart": {
        _COUNTS: {
            "payouts/test_pay_out_reorg.py": (
                "test_a_block_that_comes_while_it_looks_back_is_not_passed_over",
            ),
        },
        _STATES: _TAKEN,
        _WATCH: _DEEP
        | {
            "settlement/test_settler_blocked.py": (
                "test_held_money_that_a_reorganisation_undid_is_held_when_it_comes_again",
                "test_released_money_that_a_reorganisation_undid_is_settled_when_it_comes_again",
                "test_what_did_not_come_is_not_returned",
                "test_what_was_returned_already_is_not_returned_again",
            ),
        },
    },
}


def reason_to_skip(profile: str, path: str, function: str) -> str | None:
    """Return why a test is not run under a profile, None if it is.

    The path is relative to `tests/contract`.
    """
    reasons = (*SKIPPED.items(), *SKIPPED_UNDER.get(profile, {}).items())
    return next((why for why, files in reasons if function in files.get(path, ())), None)
