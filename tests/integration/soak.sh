#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Mixed load on four lanes while connections are cut at random: nothing hangs, nothing is lost, nothing grows.
#
# SOAK_SECONDS=1800 for the long run by hand, with TIME_FACTOR unset: no call may take 5 s. docs/RELIABILITY.md has its result.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

seconds=${SOAK_SECONDS:-15}
[ "$SCALE" = small ] && seconds=6
soak=$lib_dir/integration/soak.py

# Of the daemon, in all lanes: counter GROUP NAME.
counter()
{
	"$STAT" "$mnt" --json | python3 -c '
import json, sys
print(sum(lane[sys.argv[1]][sys.argv[2]] for lane in json.load(sys.stdin)["lanes"]))' "$1" "$2"
}

counter_is()
{
	[ "$(counter "$1" "$2")" = "$3" ]
}

limits[soak]=$((seconds + 120))
test_soak()
{
	local server pid relay watcher status=0 borrowed lost
	export=$T/export mnt=$T/mnt
	mkdir "$export"
	# In memory: it is not the disk that is tested.
	mount -t tmpfs -o mode=755 nfsrdma-soak "$export"
	start_exportd "$export" --no-root-squash
	server=$rdma_port
	python3 "$soak" relay "$server" "$T/port" "${SOAK_LOSS:-0.01}" "${SOAK_SEED:-1}" >"$T/relay" &
	relay=$!
	wait_until 20 test -e "$T/port"
	rdma_port=$(cat "$T/port")
	# Small arenas: all of their memory has been touched soon, and is often full.
	mount_nfs "$export" "$mnt" nconnect=4,arena=16M
	pid=$(daemon_pid "$mnt")
	python3 "$soak" watch "$seconds" "$T/notes" "$pid" "$exportd_pid" &
	watcher=$!
	python3 "$soak" load "$mnt" "$seconds" "${SOAK_SEED:-1}" "$T/did" || status=$?
	cat "$T/did"
	[ "$status" -eq 0 ] || fail "$(grep -m1 FAILED "$T/did" || echo "no word of the load: something hangs")"
	wait "$watcher"
	lost=$(counter rpcrdma disconnects)
	echo "connections lost: $lost; calls sent again: $(counter rpcrdma retransmits); WRITEs sent again after a COMMIT: $(counter fuse resent)"
	[ "$lost" -gt 0 ] || fail "no connection was lost, so that nothing is tested"
	python3 "$soak" judge "$T/notes" || fail "something has grown"
	# With nothing under way nothing is held.
	wait_until 30 counter_is fuse kept_bytes 0 || fail "data is kept for ever"
	wait_until 30 counter_is fuse ops 0 || fail "requests are in progress for ever"
	wait_until 30 counter_is rpcrdma outstanding 0 || fail "calls are outstanding for ever"
	borrowed=$(counter fmrpool in_use)
	assert_eq "$borrowed" 0 "registrations in use"
	assert_eq "$(counter fuse write_errors)" 0 "data that could not be saved"
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	umount "$export"
	kill -TERM "$relay"
	wait "$relay" || true
	cat "$T/relay"
}

tests_main "$@"
