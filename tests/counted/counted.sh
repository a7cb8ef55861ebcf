#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What READ and WRITE cost at the device, counted by a decorator around it: no registration, no window made, one map and one unmap
# for each segment of payload, one doorbell at most for each RPC, and every registration of an RPC unmapped before its
# caller has its answer.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
NFSRDMA=$build_dir/tests/counted/nfsrdma-counted

# of COLUMN FILE
of()
{
	awk -v column="$1" '$1 == column { print $2 }' "$2"
}

tell()
{
	python3 "$lib_dir/counted/counts.py" "$T/counts" ${1:+"$1"}
}

# transfer FILE READS WRITES: each of 64 KiB, past the page cache, one RPC with one segment of payload.
transfer()
{
	python3 - "$@" <<-'EOF'
		import mmap, os, sys
		path, reads, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		size, total = 65536, 8 << 20
		buf = mmap.mmap(-1, size)
		fd = os.open(path, os.O_RDWR | os.O_DIRECT)
		for i in range(reads):
		    assert os.preadv(fd, [buf], i * size % total) == size
		for i in range(writes):
		    assert os.pwritev(fd, [buf], i * size % total) == size
		os.close(fd)
	EOF
}

costs()
{
	local reads=300 writes=200 column
	[ "$SCALE" = full ] && reads=30000 writes=20000
	export=$T/export
	mkdir "$export"
	truncate -s 8M "$export/file"
	start_exportd "$export" --no-root-squash
	mount_env=("COUNTING_DEVICE_FILE=$T/counts")
	mount_nfs "$export" "$T/mnt" "$1"
	transfer "$T/mnt/file" 20 20 # warm
	tell >"$T/before"
	transfer "$T/mnt/file" $reads $writes
	tell "$T/before" >"$T/difference"
	cat "$T/difference"
	for column in registrations deregistrations windows_made windows_freed violations; do
		assert_eq "$(of $column "$T/difference")" 0 "$column"
	done
	assert_eq "$(of binds "$T/difference")" $((reads + writes)) "maps for $reads READs and $writes WRITEs of one segment each"
	assert_eq $(($(of invalidates "$T/difference") + $(of remote_invalidates "$T/difference"))) $((reads + writes)) unmaps
	local sends doorbells
	sends=$(of sends "$T/difference")
	doorbells=$(of doorbells_with_sends "$T/difference")
	[ "$sends" -ge $((reads + writes)) ] || fail "$sends Sends for $((reads + writes)) calls: the counter does not count"
	[ "$doorbells" -le "$sends" ] || fail "$doorbells doorbells for $sends RPCs"
	assert_eq "$(of answers "$T/difference")" "$sends" "answers, one for each Send"
	[ "$(of registrations "$T/before")" -gt 0 ] || fail "no registration was ever counted: the decorator is not in the way"
	umount_nfs "$T/mnt"
	tell >"$T/end"
	assert_eq "$(of registrations "$T/end")" "$(of deregistrations "$T/end")" "registrations and deregistrations in all"
	assert_eq "$(of windows_made "$T/end")" "$(of windows_freed "$T/end")" "windows made and freed in all"
}

test_read_and_write_cost_one_map_and_one_unmap()
{
	costs ""
}

test_read_and_write_cost_one_map_and_one_unmap_nconnect()
{
	costs nconnect=4
}

tests_main "$@"
