#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A writer whose every byte is accounted for (kill.py), while the server, or the client, is killed again and again.
#
# KILLS=200 KILL_SEED=1 for the long run by hand, with TIME_FACTOR=20; docs/RELIABILITY.md has its result.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

kills=${KILLS:-10}
[ "$SCALE" = small ] && kills=4
RANDOM=${KILL_SEED:-1}

steps()
{
	local n
	n=$(wc -l 2>/dev/null <"$T/log") || n=0
	echo "$n"
}

# Has the writer got so far, or ended?
steps_or_end()
{
	[ "$(steps)" -ge "$1" ] || process_ended "$writer"
}

start_writer()
{
	rm -f "$T/log" "$T/log.stop"
	python3 "$lib_dir/integration/kill.py" write "$mnt" "$T/log" "$1" &
	writer=$!
}

# The writer comes some way, which is its business; then it is somebody's end.
some_steps()
{
	wait_until 60 steps_or_end $(($(steps) + 2 + RANDOM % 40)) || fail "the writer stands still: $(tail -1 "$T/log")"
}

check()
{
	python3 "$lib_dir/integration/kill.py" check "$export" "$T/log" || fail "kill $i of $kills"
}

# Nobody but the client notices: the writer gets no error.
limits[server_is_killed]=120
test_server_is_killed()
{
	local i writer
	serve_and_mount "nconnect=2${KILL_OPTIONS:+,$KILL_OPTIONS}"
	start_writer 1
	for i in $(seq "$kills"); do
		some_steps
		! process_ended "$writer" || fail "the writer has ended before kill $i: $(tail -1 "$T/log")"
		kill_exportd
		check # what the server was given has to be there now
		start_exportd "$export" --no-root-squash
	done
	touch "$T/log.stop"
	wait "$writer" || fail "the writer got an error: $(tail -1 "$T/log")"
	check
	! grep -q '^error' "$T/log" || fail "the writer got an error"
	echo "the server was killed $kills times"
}

# What was promised is there, and the mount point is free for a new mount.
limits[daemon_is_killed]=120
test_daemon_is_killed()
{
	local i pid writer
	serve_and_mount "nconnect=2${KILL_OPTIONS:+,$KILL_OPTIONS}"
	for i in $(seq "$kills"); do
		start_writer "$i"
		some_steps
		! process_ended "$writer" || fail "the writer has ended before kill $i: $(tail -1 "$T/log")"
		pid=$(daemon_pid "$mnt")
		kill -KILL "$pid"
		wait_until 20 process_ended "$pid" || fail "the daemon goes on after SIGKILL"
		wait_until 20 process_ended "$writer" || fail "the writer waits for a daemon that is gone"
		wait "$writer" 2>/dev/null || true
		umount "$mnt" || fail "cannot unmount what the daemon has left"
		check
		mount_nfs "$export" "$mnt" "nconnect=2${KILL_OPTIONS:+,$KILL_OPTIONS}"
		cmp "$export/one" "$mnt/one"
		cmp "$export/two" "$mnt/two"
	done
	echo "the daemon was killed $kills times"
}

tests_main "$@"
