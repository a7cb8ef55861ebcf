#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a server can do with the keys that a mount gives it: nothing but what each call asked for. The server here is real,
# with a relay before it that misuses the keys; see hostile_proxy.py.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

misuse()
{
	mkdir -p "$T/export"
	start_exportd "$T/export" --no-root-squash
	python3 "$source_dir/tests/integration/protection.py" "$1" "$NFSRDMA" "$T/export" "$T" "$rdma_port" "$tcp_port" \
		"$T/nfsrdma.log"
}

test_server_reads_what_it_may_only_write()
{
	misuse reads_what_it_may_only_write
}

test_server_writes_what_it_may_only_read()
{
	misuse writes_what_it_may_only_read
}

test_server_writes_one_byte_before_a_window()
{
	misuse writes_one_byte_before
}

test_server_writes_one_byte_behind_a_window()
{
	misuse writes_one_byte_behind
}

test_server_writes_across_the_end_of_a_window()
{
	misuse writes_across_the_end
}

test_server_writes_across_the_start_of_a_window()
{
	misuse writes_across_the_start
}

test_server_reads_one_byte_before_a_window()
{
	misuse reads_one_byte_before
}

test_server_reads_one_byte_behind_a_window()
{
	misuse reads_one_byte_behind
}

test_server_reads_across_the_end_of_a_window()
{
	misuse reads_across_the_end
}

test_server_reads_across_the_start_of_a_window()
{
	misuse reads_across_the_start
}

limits[server_uses_every_key_after_its_reply]=180
test_server_uses_every_key_after_its_reply()
{
	misuse uses_every_key_after_its_reply
}

test_server_uses_a_key_of_another_connection()
{
	misuse uses_a_key_of_another_connection
}


tests_main "$@"
