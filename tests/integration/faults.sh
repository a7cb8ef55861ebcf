#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a program is told when the server refuses, puts off, forgets what it has written, or falls silent: each test is one
# fault and what must come of it, written down in faults.py. The daemon's clock stands still until faults.py moves it on.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

fault()
{
	python3 "$source_dir/tests/integration/faults.py" "$1" "$build_dir/tests/integration/nfsrdma-test-clock" "$T" "${@:2}"
}

# Every NFS3ERR, and one that the RFC does not list: the errno that the kernel's client gives.

test_every_status_of_getattr()
{
	fault statuses_of getattr
}

test_every_status_of_setattr()
{
	fault statuses_of setattr
}

test_every_status_of_lookup()
{
	fault statuses_of lookup
}

test_every_status_of_access()
{
	fault statuses_of access
}

test_every_status_of_readlink()
{
	fault statuses_of readlink
}

test_every_status_of_read()
{
	fault statuses_of read
}

test_every_status_of_write()
{
	fault statuses_of write
}

test_every_status_of_write_is_told_by_fsync()
{
	fault statuses_of write commit
}

test_every_status_of_create()
{
	fault statuses_of create
}

test_every_status_of_mkdir()
{
	fault statuses_of mkdir
}

test_every_status_of_symlink()
{
	fault statuses_of symlink
}

test_every_status_of_mknod()
{
	fault statuses_of mknod
}

test_every_status_of_remove()
{
	fault statuses_of remove
}

test_every_status_of_rmdir()
{
	fault statuses_of rmdir
}

test_every_status_of_rename()
{
	fault statuses_of rename
}

test_every_status_of_link()
{
	fault statuses_of link
}

test_every_status_of_readdir()
{
	fault statuses_of readdir
}

test_every_status_of_readdirplus()
{
	fault statuses_of readdirplus
}

test_every_status_of_fsstat()
{
	fault statuses_of fsstat
}

test_every_status_of_commit()
{
	fault statuses_of commit
}

test_every_status_of_fsinfo_is_told_by_mount()
{
	fault statuses_of_fsinfo
}

test_every_status_of_pathconf_is_done_without()
{
	fault statuses_of_pathconf
}

limits[jukebox_for_ten_seconds_is_waited_out]=240
test_jukebox_for_ten_seconds_is_waited_out()
{
	fault put_off_for_ten_seconds
}

test_jukebox_while_mounting_is_waited_out()
{
	fault put_off_while_mounting
}

test_caller_of_a_jukebox_can_be_killed()
{
	fault put_off_for_ever_can_be_killed
}

test_verifier_that_changes_once_sends_again()
{
	fault verifier_that_changes_once
}

test_verifier_that_changes_at_every_commit_ends_in_eio()
{
	fault verifier_that_changes_at_every_commit
}

test_verifier_that_changes_at_every_write_ends_in_eio()
{
	fault verifier_that_changes_at_every_write
}

limits[silence_at_every_procedure_sends_again]=240
test_silence_at_every_procedure_sends_again()
{
	fault silence_at_every_procedure
}

limits[silence_for_an_hour_is_no_error_on_a_hard_mount]=240
test_silence_for_an_hour_is_no_error_on_a_hard_mount()
{
	fault silence_for_an_hour
}

test_silence_is_an_error_on_a_soft_mount()
{
	fault silence_for_a_soft_mount
}

limits[replies_cut_short_at_every_word_are_eio]=240
test_replies_cut_short_at_every_word_are_eio()
{
	fault replies_cut_short
}

test_rpc_refusals_are_told()
{
	fault rpc_refusals
}

test_read_of_no_bytes_is_eio()
{
	fault read_of_no_bytes
}

test_write_that_was_not_done_is_eio()
{
	fault write_that_was_not_done
}

test_listing_of_no_names_is_eio()
{
	fault listing_of_no_names
}

test_directory_within_itself_is_refused()
{
	fault directory_within_itself
}

test_object_of_another_kind_is_refused()
{
	fault object_of_another_kind
}

tests_main "$@"
