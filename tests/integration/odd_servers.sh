#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a mount makes of servers that lack something, or do what a server should not: each test is one server, written down in
# odd_servers.py, and what must hold on a mount of it.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

server()
{
	python3 "$source_dir/tests/integration/odd_servers.py" "$1" "$NFSRDMA" "$T"
}

test_without_exclusive_create()
{
	server without_exclusive_create
}

test_without_readdirplus()
{
	server without_readdirplus
}

test_that_has_never_heard_of_readdirplus()
{
	server that_has_never_heard_of_readdirplus
}

test_create_without_handle_and_attributes()
{
	server create_without_handle_and_attributes
}

test_listing_cookies_that_need_a_zero_verifier()
{
	server listing_cookies_that_need_a_zero_verifier
}

test_listing_cookies_that_end_with_each_change()
{
	server listing_cookies_that_end_with_each_change
}

test_listing_place_that_is_lost()
{
	server listing_place_that_is_lost
}

test_listing_that_needs_more_room()
{
	server listing_that_needs_more_room
}

test_listing_with_attributes_that_never_has_room()
{
	server listing_with_attributes_that_never_has_room
}

test_listing_in_a_circle()
{
	server listing_in_a_circle
}

test_listing_that_starts_small_and_grows()
{
	server listing_that_starts_small_and_grows
}

test_listing_that_outlives_a_name()
{
	server listing_that_outlives_a_name
}

test_listing_places_that_use_all_64_bits()
{
	server listing_places_that_use_all_64_bits
}

test_small_transfer_sizes()
{
	server small_transfer_sizes
}

test_answers_that_are_shorter_than_asked()
{
	server answers_that_are_shorter_than_asked
}

test_transfer_sizes_of_four_gigabytes()
{
	server transfer_sizes_of_four_gigabytes
}

test_transfer_sizes_unsaid()
{
	server transfer_sizes_unsaid
}

test_file_system_without_bounds()
{
	server file_system_without_bounds
}

test_file_system_of_1000_bytes()
{
	server file_system_of_1000_bytes
}

test_file_of_the_largest_size()
{
	server file_of_the_largest_size
}

test_file_beyond_the_largest_size()
{
	server file_beyond_the_largest_size
}

test_largest_size_of_the_server()
{
	server largest_size_of_the_server
}

test_file_replaced_under_a_cached_name()
{
	server file_replaced_under_a_cached_name
}

test_directory_replaced_above_a_cached_name()
{
	server directory_replaced_above_a_cached_name
}

test_file_replaced_and_still_there()
{
	server file_replaced_and_still_there
}

test_handle_used_again()
{
	server handle_used_again
}

test_file_systems_within_the_export()
{
	server file_systems_within_the_export
}

test_own_changes_keep_the_cache()
{
	server own_changes_keep_the_cache
}

test_others_changes_are_seen_by_who_has_the_file_open()
{
	server others_changes_are_seen_by_who_has_the_file_open
}

test_question_about_an_open_file_that_is_never_answered()
{
	server question_about_an_open_file_that_is_never_answered
}

test_attributes_are_believed_for_their_time()
{
	server attributes_are_believed_for_their_time
}

test_name_that_a_listing_has_shown()
{
	server name_that_a_listing_has_shown
}

test_names_that_are_not_there()
{
	server names_that_are_not_there
}

test_listing_entries_without_attributes()
{
	server listing_entries_without_attributes
}

test_listing_entries_without_handles()
{
	server listing_entries_without_handles
}

test_listing_entries_without_both()
{
	server listing_entries_without_both
}

tests_main "$@"
