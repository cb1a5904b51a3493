"""Scenarios of tests/e2e that simulated engines can play: the same functions, with `stack` from conftest.py here."""

from tests.e2e.test_endings import (
    test_a_client_that_leaves_at_any_time_leaves_no_block_held,
    test_a_client_that_leaves_in_mid_stream_leaves_no_block_held,
    test_a_request_straight_to_decode_with_odd_parameters_is_served_and_freed,
    test_a_second_turn_that_is_too_long_leaves_no_block_held,
)
from tests.e2e.test_outages import (
    test_a_dead_router_is_done_without,
    test_a_frozen_registry_adds_no_more_than_the_bounded_wait,
    test_a_gateway_that_dies_leaves_no_block_held_longer_than_the_lease,
    test_a_registry_that_is_killed_is_done_without_and_comes_back_with_all_live_leases,
    test_an_expired_lease_is_computed_instead,
    test_engines_that_die_are_done_without_and_reuse_is_back_once_they_are,
    test_turns_while_the_registry_is_away_are_all_answered_and_nothing_waits_on,
)
from tests.e2e.test_pressure import test_twelve_retained_conversations_keep_no_new_one_waiting
from tests.e2e.test_reuse import (
    test_a_regenerated_answer_is_that_of_a_cold_run,
    test_a_short_conversation_is_neither_read_nor_kept,
    test_ten_conversations_with_one_request_id_do_not_mix,
    test_transfer_parameters_of_a_client_are_stripped,
    test_turns_of_one_conversation_at_once_are_all_right,
)
from tests.e2e.test_tickets import (
    test_a_streamed_turn_is_leased,
    test_another_tenant_gets_nothing_of_a_conversation_of_the_same_name,
    test_decode_that_comes_after_prefills_lease_computes,
    test_the_same_tokens_under_another_salt_are_not_reused,
    test_two_clients_with_one_conversation_s_name_get_their_own_answers,
)

__all__ = [
    "test_a_client_that_leaves_at_any_time_leaves_no_block_held",
    "test_a_client_that_leaves_in_mid_stream_leaves_no_block_held",
    "test_a_dead_router_is_done_without",
    "test_a_frozen_registry_adds_no_more_than_the_bounded_wait",
    "test_a_gateway_that_dies_leaves_no_block_held_longer_than_the_lease",
    "test_a_regenerated_answer_is_that_of_a_cold_run",
    "test_a_registry_that_is_killed_is_done_without_and_comes_back_with_all_live_leases",
    "test_a_request_straight_to_decode_with_odd_parameters_is_served_and_freed",
    "test_a_second_turn_that_is_too_long_leaves_no_block_held",
    "test_a_short_conversation_is_neither_read_nor_kept",
    "test_a_streamed_turn_is_leased",
    "test_an_expired_lease_is_computed_instead",
    "test_another_tenant_gets_nothing_of_a_conversation_of_the_same_name",
    "test_decode_that_comes_after_prefills_lease_computes",
    "test_engines_that_die_are_done_without_and_reuse_is_back_once_they_are",
    "test_ten_conversations_with_one_request_id_do_not_mix",
    "test_the_same_tokens_under_another_salt_are_not_reused",
    "test_transfer_parameters_of_a_client_are_stripped",
    "test_turns_of_one_conversation_at_once_are_all_right",
    "test_turns_while_the_registry_is_away_are_all_answered_and_nothing_waits_on",
    "test_twelve_retained_conversations_keep_no_new_one_waiting",
    "test_two_clients_with_one_conversation_s_name_get_their_own_answers",
]
