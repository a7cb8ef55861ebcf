#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Write-behind: write(2) returns when the data is in the daemon's memory. What programs see of it all the same, what it costs, and
# what happens when the data cannot be saved.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

server()
{
	python3 "$lib_dir/integration/write_behind.py" "$1" "$NFSRDMA" "$T"
}

test_full_server()
{
	server full_server
}

test_server_over_its_quota()
{
	server server_over_its_quota
}

test_server_with_a_broken_disk()
{
	server server_with_a_broken_disk
}

test_verifier_that_never_settles()
{
	server verifier_that_never_settles
}

test_server_without_a_duplicate_request_cache()
{
	server server_without_a_duplicate_request_cache
}

test_exclusive_create_sent_twice()
{
	server exclusive_create_sent_twice
}

test_write_answered_after_a_truncation()
{
	server write_answered_after_a_truncation
}

test_unsaved_files_are_named()
{
	server unsaved_files_are_named
}

test_saved_late()
{
	server saved_late
}

# nfs_calls PROCEDURE: how many there were.
nfs_calls()
{
	"$STAT" "$mnt" --json | python3 -c '
import json, sys
print(sum(lane["procs"][sys.argv[1]]["calls"] for lane in json.load(sys.stdin)["lanes"]))' "$1"
}

counter()
{
	"$STAT" "$mnt" --json | python3 -c '
import json, sys
print(sum(lane[sys.argv[1]][sys.argv[2]] for lane in json.load(sys.stdin)["lanes"]))' "$1" "$2"
}

# Write 4096 KiB in pieces of so many bytes; the WRITEs that come of it.
writes_for()
{
	local before after
	before=$(nfs_calls WRITE)
	dd if="$T/in" of="$mnt/out" bs="$1" status=none
	after=$(nfs_calls WRITE)
	cmp "$T/in" "$export/out"
	echo "4194304 bytes by $1: $((after - before)) WRITEs" >&2
	echo $((after - before))
}

test_small_writes_are_gathered()
{
	serve_and_mount
	pattern_file "$T/in" 4194304 gather
	# It takes 4 of wsize; a slow writer needs more, for they do not wait for long.
	[ "$(writes_for 4096)" -le 256 ] || fail "1024 pieces in more than a quarter as many WRITEs"
	[ "$(writes_for 65536)" -le 32 ] || fail "64 pieces in more than half as many WRITEs"
	head -c 100000 "$T/in" >"$T/less"
	mv "$T/less" "$T/in"
	[ "$(writes_for 100)" -le 250 ] || fail "1000 pieces in more than a quarter as many WRITEs"
}

# What is written at one go and closed is stable with its WRITE; what has gone before needs a COMMIT.
test_small_files_need_no_commit()
{
	local before i
	serve_and_mount
	before=$(nfs_calls COMMIT)
	for i in 1 2 3 4 5; do
		echo "$i" >"$mnt/file$i"
	done
	assert_eq "$(nfs_calls COMMIT)" "$before" "COMMITs after closing small files"
	assert_eq "$(counter fuse kept_bytes)" 0 "bytes that are not stable after a close"
	assert_eq "$(cat "$export"/file?)" $'1\n2\n3\n4\n5'
}

counter_is()
{
	[ "$(counter "$1" "$2")" = "$3" ]
}

# sync(2) does not reach us, and nobody closes the file.
test_data_is_stable_by_itself()
{
	local holder
	serve_and_mount commit=1
	# In one process, for the end of any other that has the file open is a close.
	python3 - "$mnt/file" "$T/written" "$T/go" <<-'EOF' &
		import os, sys, time
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
		os.write(fd, b"stable")
		open(sys.argv[2], "w").close()
		while not os.path.exists(sys.argv[3]):
		    time.sleep(0.005)
	EOF
	holder=$!
	wait_until 20 test -e "$T/written"
	committed()
	{
		[ "$(nfs_calls COMMIT)" -ge 1 ]
	}
	wait_until 20 committed || fail "no COMMIT"
	wait_until 20 counter_is fuse kept_bytes 0 || fail "kept after the COMMIT"
	assert_eq "$(cat "$export/file")" stable
	touch "$T/go"
	wait "$holder"
}

# writer.py DIR: writes when $T/go is there and says so; then looks at what it has written, which needs the server.
writer()
{
	cat >"$T/writer.py" <<-'EOF'
		import os, sys, time
		mnt, scratch = sys.argv[1:]
		def say(name):
		    open(f"{scratch}/{name}", "w").close()
		def awaits(name):
		    while not os.path.exists(f"{scratch}/{name}"):
		        time.sleep(0.005)
		fd = os.open(mnt + "/file", os.O_RDWR)
		say("ready")
		awaits("go")
		os.pwrite(fd, b"NEW", 1000)
		os.pwrite(fd, b"end", 20000)
		say("written")
		st = os.fstat(fd)
		assert st.st_size == 20003, st.st_size
		os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		got = os.pread(fd, 30000, 0)
		assert got == b"o" * 1000 + b"NEW" + b"o" * 8997 + bytes(10000) + b"end", got[990:1010]
		os.pwrite(fd, b"gone", 30000)
		os.ftruncate(fd, 20001)
		os.pwrite(fd, b"!", 25000)
		assert os.fstat(fd).st_size == 25001
		assert os.pread(fd, 30000, 20000) == b"e" + bytes(4999) + b"!"
		os.close(fd)
	EOF
	head -c 10000 /dev/zero | tr '\0' o >"$export/file"
	python3 "$T/writer.py" "$mnt" "$T" &
	writer=$!
	wait_until 20 test -e "$T/ready" || fail "the writer is not ready"
}

test_readers_and_stat_see_what_the_server_does_not_have()
{
	local writer
	serve_and_mount
	writer
	kill_exportd
	touch "$T/go"
	wait_until 20 test -e "$T/written" || fail "write(2) waits for the server"
	start_exportd "$export" --no-root-squash
	wait "$writer" || fail "the writer has seen something else"
	assert_eq "$(stat -c %s "$export/file")" 25001
}

test_sync_waits_for_the_server()
{
	local writer
	serve_and_mount sync
	writer
	kill_exportd
	touch "$T/go"
	wait_until 20 waits_in_fuse "$writer" || fail "the writer does not wait"
	[ ! -e "$T/written" ] || fail "write(2) does not wait for the server"
	start_exportd "$export" --no-root-squash
	wait "$writer" || fail "the writer has seen something else"
}

kept_at_least()
{
	[ "$(counter fuse kept_bytes)" -ge "$1" ]
}

# Who writes more than there is memory for waits, and goes on.
test_memory_is_bounded()
{
	local writer
	serve_and_mount arena=8M,wsize=65536,rsize=65536
	pattern_file "$T/in" 30000000 bounded
	python3 - "$T/in" "$mnt/out" "$T/ready" "$T/go" <<-'EOF' &
		import os, sys, time
		data = open(sys.argv[1], "rb").read()
		with open(sys.argv[2], "wb", buffering=0) as f:
		    open(sys.argv[3], "w").close()
		    while not os.path.exists(sys.argv[4]):
		        time.sleep(0.005)
		    for at in range(0, len(data), 65536):
		        f.write(data[at : at + 65536])
	EOF
	writer=$!
	wait_until 20 test -e "$T/ready"
	kill_exportd
	touch "$T/go"
	# Half of the arena, but for less than one piece.
	wait_until 20 kept_at_least $((4194304 - 2 * 65536)) || fail "only $(counter fuse kept_bytes) bytes are taken"
	[ "$(counter fuse kept_bytes)" -le 4194304 ] || fail "$(counter fuse kept_bytes) bytes are kept in a half of 4194304"
	! process_ended "$writer" || fail "the writer does not wait"
	start_exportd "$export" --no-root-squash
	wait "$writer"
	cmp "$T/in" "$export/out"
}

# More than there is memory and operations for, and nobody to take it; who is killed then must go all the same.
test_writers_to_a_dead_server_can_be_killed()
{
	local pid pids='' pieces
	serve_and_mount arena=8M,wsize=65536,rsize=65536
	for pieces in large small direct; do
		python3 - "$mnt/$pieces" "$pieces" "$T/ready.$pieces" "$T/go" <<-'EOF' &
			import mmap, os, sys, time
			path, pieces, ready, go = sys.argv[1:]
			fd = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_DIRECT if pieces == "direct" else 0))
			buf = mmap.mmap(-1, 65536)
			open(ready, "w").close()
			while not os.path.exists(go):
			    time.sleep(0.005)
			for i in range(100000):
			    if pieces == "small":
			        os.pwrite(fd, b"x", (i * 7919 % 100000) * 8192)
			    else:
			        os.pwritev(fd, [buf], i * 65536)
		EOF
		pids="$pids $!"
		wait_until 20 test -e "$T/ready.$pieces" || fail "$pieces is not ready"
	done
	kill_exportd
	touch "$T/go"
	wait_until 20 kept_at_least $((4194304 - 3 * 65536)) || fail "only $(counter fuse kept_bytes) bytes are taken"
	for pid in $pids; do
		wait_until 20 waits_in_fuse "$pid" || fail "a writer does not wait"
	done
	for pid in $pids; do
		kill -KILL "$pid"
	done
	for pid in $pids; do
		wait_until 20 process_ended "$pid" || fail "goes on after SIGKILL: $(tr '\0' ' ' <"/proc/$pid/cmdline") $(cat "/proc/$pid/stack")"
	done
	start_exportd "$export" --no-root-squash
	echo works >"$mnt/file"
	assert_eq "$(cat "$export/file")" works
}

# One who writes without end does not keep another from coming through.
test_memory_is_shared()
{
	serve_and_mount arena=8M,wsize=65536,rsize=65536
	python3 - "$mnt" "$T/over" <<-'EOF' &
		import os, sys
		fd = os.open(sys.argv[1] + "/heavy", os.O_WRONLY | os.O_CREAT)
		while not os.path.exists(sys.argv[2]):
		    for i in range(256):
		        os.pwrite(fd, bytes(65536), i * 65536)
	EOF
	local heavy=$!
	wait_until 20 test -s "$export/heavy" || fail "nothing is written"
	pattern_file "$T/in" 2000000 light
	timeout 40 cp "$T/in" "$mnt/light" || fail "the other does not come through"
	touch "$T/over"
	wait "$heavy"
	cmp "$T/in" "$export/light"
}

# Pages that a program has made dirty through a mapping must be written before it can have others. With the daemon outside of
# the group, and with it inside, where it must not wait for itself.
small_group()
{
	group=
	if [ -w /sys/fs/cgroup/memory/tasks ]; then
		group=/sys/fs/cgroup/memory/nfsrdma-test.$$
		mkdir "$group" && echo 64M >"$group/memory.limit_in_bytes" || group=
	elif grep -qsw memory /sys/fs/cgroup/cgroup.subtree_control; then
		group=/sys/fs/cgroup/nfsrdma-test.$$
		mkdir "$group" && echo 64M >"$group/memory.max" && echo 0 >"$group/memory.swap.max" || group=
	fi
	[ -n "$group" ] || skip "no group with a memory limit can be made here"
}

mapped_in_small_group()
{
	small_group
	serve_and_mount arena=16M
	[ "$1" = outside ] || daemon_pid "$mnt" >"$group/cgroup.procs"
	# shellcheck disable=SC2016
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec python3 - "$@"' - "$group" "$mnt/file" <<-'EOF' || fail "the program failed, or was killed for want of memory"
		import mmap, os, sys
		size = 160 << 20
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		os.ftruncate(fd, size)
		with mmap.mmap(fd, size) as m:
		    for at in range(0, size, 4096):
		        m[at : at + 8] = at.to_bytes(8, "big")
		    m.flush()
		    for at in range(0, size, 4096 * 61):
		        assert m[at : at + 8] == at.to_bytes(8, "big"), at
		os.close(fd)
	EOF
	python3 - "$export/file" <<-'EOF'
		import sys
		with open(sys.argv[1], "rb") as f:
		    for at in range(0, 160 << 20, 4096):
		        assert f.read(4096)[:8] == at.to_bytes(8, "big"), at
	EOF
	umount_nfs "$mnt"
	rmdir "$group"
}

limits[mapped_pages_in_a_small_group]=120
test_mapped_pages_in_a_small_group()
{
	mapped_in_small_group outside
}

limits[mapped_pages_in_a_small_group_with_the_daemon]=120
test_mapped_pages_in_a_small_group_with_the_daemon()
{
	mapped_in_small_group inside
}

tests_main "$@"
