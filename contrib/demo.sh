#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Shows nfsrdma at work on this one machine: builds it, serves a scratch directory with nfsrdma-exportd, mounts that over
# RPC/RDMA, copies a real tree in and out, and says what the transport did.
#
#	sudo contrib/demo.sh		leaves the mount in place until Ctrl-C
#	sudo contrib/demo.sh --once	cleans up at once; exit status 0 only if every check held
#
# For the tests: --port N has the server take that RDMA port, and --statistics FILE keeps the client's counters as they
# were when it had ended.

set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=packages.sh
. contrib/packages.sh

once='' port=0 statistics=''
while [ $# -gt 0 ]; do
	case $1 in
	--once) once=1 ;;
	--port) port=$2 && shift ;;
	--statistics) statistics=$2 && shift ;;
	*) sed -n 's/^# \{0,1\}//; 4,11p' "$0" >&2 && exit 2 ;;
	esac
	shift
done

tree=/usr/include
file_mib=256
dir='' mount_point='' exportd_pid='' daemon=''

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

# wait_for SECONDS COMMAND…
wait_for()
{
	local deadline_s=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $deadline_s ] || return 1
		sleep 0.05
	done
}

is_over()
{
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

is_mounted()
{
	awk -v dir="$mount_point" '$5 == dir { found = 1 } END { exit !found }' /proc/self/mountinfo
}

find_daemon()
{
	local proc
	for proc in /proc/[0-9]*; do
		[ "$(readlink "$proc/exe" 2>/dev/null)" = "$PWD/build/src/nfsrdma" ] || continue
		if tr '\0' '\n' <"$proc/cmdline" 2>/dev/null | grep -qxF "$mount_point"; then
			echo "${proc#/proc/}"
			return
		fi
	done
}

unmount()
{
	timeout 30 umount "$mount_point" || return 1
	[ -z "$daemon" ] || wait_for 30 is_over "$daemon"
}

# Whatever happened: no mount, no process and no scratch directory is left.
clean_up()
{
	local status=$?
	trap '' INT TERM HUP
	if [ -n "$mount_point" ] && is_mounted; then
		unmount || umount -l "$mount_point" || true
	fi
	if [ -n "$daemon" ] && ! is_over "$daemon"; then
		kill -KILL "$daemon" 2>/dev/null || true
	fi
	if [ -n "$exportd_pid" ]; then
		kill -TERM "$exportd_pid" 2>/dev/null || true
		wait_for 5 is_over "$exportd_pid" || kill -KILL "$exportd_pid" 2>/dev/null || true
	fi
	[ -z "$dir" ] || rm -rf --one-file-system "$dir"
	exit $status
}

checks=0
check()
{
	local what=$1
	shift
	if "$@" >"$dir/check.log" 2>&1; then
		checks=$((checks + 1))
		say "  ok  $what"
	else
		tail -5 "$dir/check.log" >&2
		die "does not hold: $what"
	fi
}

# Sizes, times, modes, owners and link targets of a tree.
listing()
{
	(cd "$1" && find . \( -type d -printf '%P %y %m %U:%G %T@\n' -o -printf '%P %y %m %U:%G %s %T@ %l\n' \) | sort)
}

same_listing()
{
	diff <(listing "$1") <(listing "$2")
}

# Says what is in the caches of the kernel, ours included, must be fetched again.
forget_caches()
{
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# timed NAME COMMAND…: sets $NAME to the milliseconds that the command took.
timed()
{
	local name=$1 start=${EPOCHREALTIME/./}
	shift
	"$@"
	printf -v "$name" '%d' $(((${EPOCHREALTIME/./} - start) / 1000 + 1))
}

# A counter of the mount; the sum over its lanes.
of()
{
	awk -v name="$1" '$1 == name { print $2; exit }' "$dir/counters"
}

unmapped()
{
	echo $(($(of unmapped_local) + $(of unmapped_remote) + $(of unmapped_lost)))
}

row()
{
	printf '  %-42s %s\n' "$1" "$2"
}

main()
{
	[ "$(id -u)" = 0 ] || die "run it as root: sudo contrib/demo.sh"
	[ -c /dev/fuse ] || modprobe fuse 2>/dev/null || true
	[ -c /dev/fuse ] || die "there is no /dev/fuse on this machine"
	packages_install "${packages_build[@]}" "${packages_run[@]}"

	say "building"
	{ [ -f build/build.ninja ] || meson setup build; } >/tmp/nfsrdma-demo-build.$$ 2>&1 &&
		ninja -C build >>/tmp/nfsrdma-demo-build.$$ 2>&1 ||
		{ tail -30 /tmp/nfsrdma-demo-build.$$ >&2 && die "the build failed, see /tmp/nfsrdma-demo-build.$$"; }
	rm -f /tmp/nfsrdma-demo-build.$$

	trap clean_up EXIT
	trap 'exit 130' INT TERM HUP
	dir=$(mktemp -d "${TMPDIR:-/tmp}/nfsrdma-demo.XXXXXX")
	mkdir "$dir/export" "$dir/mnt" "$dir/out"
	mount_point=$dir/mnt

	build/contrib/exportd/nfsrdma-exportd "$dir/export" --rdma-port "$port" --tcp-port 0 --no-root-squash \
		--state "$dir/state" -f >"$dir/exportd.log" 2>&1 &
	exportd_pid=$!
	server_is_ready()
	{
		grep -qs '^ready ' "$dir/exportd.log" || is_over "$exportd_pid"
	}
	wait_for 20 server_is_ready || die "the server is not ready after 20 s"
	local rdma tcp
	read -r rdma tcp < <(sed -n 's/^ready rdma=\([0-9]*\) tcp=\([0-9]*\).*/\1 \2/p' "$dir/exportd.log") ||
		die "the server ended: $(tail -1 "$dir/exportd.log")"
	say "serving  $dir/export  (RPC/RDMA on port $rdma, TCP on port $tcp)"

	build/src/nfsrdma "127.0.0.1:$dir/export" "$mount_point" -o "port=$rdma,mountport=$tcp" </dev/null
	is_mounted || die "nfsrdma said yes, but nothing is mounted on $mount_point"
	daemon=$(find_daemon)
	say "mounted  $mount_point"
	say

	# On a machine with much installed that would be minutes.
	[ "$(find "$tree" -type f | wc -l)" -le 3000 ] || tree=/usr/include/linux
	say "a tree:  $tree, $(find "$tree" -type f | wc -l) files, $(du -s --apparent-size -BM "$tree" | cut -f1)"
	local ms_in ms_out ms_write ms_read
	timed ms_in cp -a "$tree" "$mount_point/tree"
	check "copied in: the server's directory holds the same bytes" diff -r --no-dereference "$tree" "$dir/export/tree"
	check "copied in: same modes, owners, times, links" same_listing "$tree" "$mount_point/tree"
	forget_caches
	timed ms_out cp -a "$mount_point/tree" "$dir/out/tree"
	check "copied out again: same bytes" diff -r --no-dereference "$tree" "$dir/out/tree"
	check "copied out again: same modes, owners, times, links" same_listing "$tree" "$dir/out/tree"

	say "a file:  $file_mib MiB"
	# Random enough that a page in the wrong place shows, and no more work to make than to read.
	head -c 1M /dev/urandom >"$dir/seed"
	make_file()
	{
		local i
		for i in $(seq $file_mib); do
			printf '%08d' "$i"
			tail -c +9 "$dir/seed"
		done
	}
	make_file >"$dir/big"
	local sum
	sum=$(sha256sum <"$dir/big")
	timed ms_write dd if="$dir/big" of="$mount_point/big" bs=1M conv=fsync status=none
	check "written: the server's file has the same checksum" test "$(sha256sum <"$dir/export/big")" = "$sum"
	forget_caches
	timed ms_read dd if="$mount_point/big" of="$dir/out/big" bs=1M status=none
	check "read: same checksum" test "$(sha256sum <"$dir/out/big")" = "$sum"
	say

	build/src/nfsrdma-stat --counters "$mount_point" >"$dir/counters"
	say "What the transport did:"
	row "RPCs sent, answered" "$(of calls), $(of replies)"
	row "bytes fetched by the server's RDMA Reads" "$(of out_rdma_bytes)"
	row "bytes placed by the server's RDMA Writes" "$(of in_rdma_bytes)"
	row "windows borrowed, mapped, unmapped" "$(of borrowed), $(of mapped), $(unmapped)"
	row "the most RPCs outstanding at once" "$(of outstanding_peak)"
	row "the tree, in and out" "$ms_in ms, $ms_out ms"
	row "the file, written and read" "$((file_mib * 1000 / ms_write)) MiB/s, $((file_mib * 1000 / ms_read)) MiB/s"
	check "every window that was mapped is unmapped" test "$(of mapped)" = "$(unmapped)"
	say

	if [ -z "$once" ]; then
		say "The mount stays:  $mount_point"
		say "It shows          $dir/export"
		say "Counters:         build/src/nfsrdma-stat $mount_point"
		say "Ctrl-C unmounts, ends the server and removes both directories."
		wait "$exportd_pid" || die "the server ended: $(tail -1 "$dir/exportd.log")"
		exit 0
	fi

	# The counters live in a file that goes with the mount: hold it open to see their last state.
	local counters
	counters=$(awk -v dir="$mount_point" '$5 == dir { print "/run/nfsrdma/" $3 }' /proc/self/mountinfo)
	exec 9<"$counters"
	check "unmounted, and the daemon has ended by itself" unmount
	[ -z "$statistics" ] || build/src/nfsrdma-stat --counters --file /proc/self/fd/9 >"$statistics"
	exec 9<&-
	kill -TERM "$exportd_pid"
	check "the server has ended when told to" wait "$exportd_pid"
	exportd_pid=''
	say "all $checks checks held"
}

main
