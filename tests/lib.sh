# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the scripts that run nfsrdma from outside share. A script sources this file, defines functions test_NAME, and ends
# with `tests_main "$@"`. Each test then runs as a process of its own, with
#
#   $T		a scratch directory of its own, removed afterwards
#   a hard time limit in seconds: limits[NAME]=N before the function, else default_limit_s
#   set -euo pipefail: the first command that fails fails the test
#
# and whatever it leaves behind is swept away by supervise.py, even when it was killed. A test that passes must also have left
# nothing: its mounts are unmounted and its servers ended in the ordinary way, and each of that must succeed.
#
# Results go to the file $RESULTS, one line a test: pass|fail|skip, name, seconds, reason; separated by tabs. Logs stay in
# the directory $LOGS.

lib_script=$(realpath "$0")
lib_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by the scripts
source_dir=$(dirname "$lib_dir")
build_dir=${BUILD:-$source_dir/build}
NFSRDMA=${NFSRDMA:-$build_dir/src/nfsrdma}
EXPORTD=${EXPORTD:-$build_dir/contrib/exportd/nfsrdma-exportd}
# shellcheck disable=SC2034
PROBE=${PROBE:-$build_dir/src/nfsrdma-probe}
# shellcheck disable=SC2034
STAT=${STAT:-$build_dir/src/nfsrdma-stat}
SCALE=${SCALE:-ci}
TMPDIR=${TMPDIR:-/tmp}
export SCALE TMPDIR
[ -z "${LOGS:-}" ] || export LOGS
# The address that servers are mounted from, what exportd is told besides, and options that every mount gets.
SERVER_ADDRESS=${SERVER_ADDRESS:-127.0.0.1}
EXPORTD_OPTIONS=${EXPORTD_OPTIONS:-}
MOUNT_OPTIONS=${MOUNT_OPTIONS:-}
declare -A limits
default_limit_s=60
mount_env=()

# --- saying what is wrong ---------------------------------------------------------------------------------------------

fail()
{
	echo "FAILED: $* (${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]})" >&2
	exit 1
}

# The machine cannot run this test: says why. Nothing else may be skipped.
skip()
{
	echo "SKIPPED: $*" >&2
	exit 77
}

assert_eq()
{
	[ "$1" = "$2" ] || {
		echo "FAILED: ${3:-value}: expected '$2', got '$1' (${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]})" >&2
		exit 1
	}
}

# assert_fails COMMAND…: it must fail by itself, and not because a time limit or a signal ended it.
assert_fails()
{
	local status=0
	"$@" || status=$?
	[ "$status" -ne 0 ] || fail "succeeded, but must not: $*"
	[ "$status" -lt 124 ] || fail "ended with status $status: $*"
}

# wait_until SECONDS COMMAND…: polls until the command succeeds; fails when the time is over, which is TIME_FACTOR times as
# long where everything is slow.
wait_until()
{
	local limit_s=$(($1 * ${TIME_FACTOR:-1})) deadline_us
	shift
	deadline_us=$((${EPOCHREALTIME/./} + limit_s * 1000000))
	until "$@"; do
		[ "${EPOCHREALTIME/./}" -lt "$deadline_us" ] || return 1
		sleep 0.02
	done
}

process_ended()
{
	# A zombie has ended, whoever was to collect it.
	[ ! -e "/proc/$1" ] || [ "$(awk '/^State:/ {print $2}' "/proc/$1/status" 2>/dev/null)" = Z ]
}

# waits_in_fuse PID: inside the kernel, in a request to FUSE.
waits_in_fuse()
{
	local stack
	[ "$(awk '/^State:/ {print $2}' "/proc/$1/status")" != R ] || return 1
	# Where the kernel does not show its stacks, being asleep must do.
	stack=$(cat "/proc/$1/stack" 2>/dev/null) || return 0
	[ -z "$stack" ] || grep -qE 'fuse|request_wait|folio|filemap' <<<"$stack"
}

# --- users ------------------------------------------------------------------------------------------------------------

# Nobody's ids; no user is added to the machine.
# shellcheck disable=SC2034 # for who sources this
alice=64531 bob=64532 team=64600

# as UID COMMAND…: without other groups.
as()
{
	local uid=$1
	shift
	setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

# --- mounts and processes ---------------------------------------------------------------------------------------------

# freeze PID: SIGSTOP, and until each of its threads has felt it.
freeze()
{
	kill -STOP "$1"
	wait_until 20 stands_still "$1" || fail "process $1 goes on after SIGSTOP"
}

stands_still()
{
	awk '/^State:/ && $2 != "T" { moves = 1 } END { exit moves }' "/proc/$1/task/"*/status
}

# Mountinfo escapes space, tab, newline and backslash; the scratch directories that we make have none.
is_mounted()
{
	awk -v dir="$1" '$5 == dir { found = 1 } END { exit !found }' /proc/self/mountinfo
}

is_not_mounted()
{
	! is_mounted "$1"
}

mounts_below()
{
	awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac
}

# pid_running PROGRAM ARGUMENT: a process of that program which has this among its arguments. The arguments of other programs
# are not looked at: /proc shows them only when the process does not wait for a file system that does not answer.
pid_running()
{
	local exe
	# shellcheck disable=SC2044
	for exe in $(find /proc/[0-9]*/exe -maxdepth 0 -lname "$(realpath "$1")" 2>/dev/null || true); do
		if tr '\0' '\n' 2>/dev/null <"${exe%exe}cmdline" | grep -qxF -e "$2"; then
			exe=${exe#/proc/}
			echo "${exe%/exe}"
			return 0
		fi
	done
	return 1
}

# The daemon that serves the mount at $1.
daemon_pid()
{
	pid_running "$NFSRDMA" "$1"
}

# --- server and client ------------------------------------------------------------------------------------------------

exportd_is_ready()
{
	grep -qs '^ready rdma=[0-9]* tcp=[0-9]*' "$exportd_log" || process_ended "$exportd_pid"
}

# start_exportd DIR [OPTION…]: sets exportd_pid, rdma_port and tcp_port. Free ports are taken the first time; a restart
# with rdma_port and tcp_port still set takes the same ones.
start_exportd()
{
	exportd_count=$((${exportd_count:-0} + 1))
	exportd_log=$T/exportd.$exportd_count.log
	# shellcheck disable=SC2086 # a list
	"$EXPORTD" "$@" $EXPORTD_OPTIONS --rdma-port "${rdma_port:-0}" --tcp-port "${tcp_port:-0}" -f >"$exportd_log" 2>&1 &
	exportd_pid=$!
	wait_until 20 exportd_is_ready || fail "exportd is not ready after 20 s"
	local ready
	ready=$(grep '^ready ' "$exportd_log") || fail "exportd ended: $(tail -3 "$exportd_log")"
	rdma_port=${ready#*rdma=}
	rdma_port=${rdma_port%% *}
	tcp_port=${ready#*tcp=}
	tcp_port=${tcp_port%% *}
	servers="${servers:-} $exportd_pid"
}

kill_exportd()
{
	kill -KILL "$exportd_pid"
	wait "$exportd_pid" 2>/dev/null || true
	servers=${servers/ $exportd_pid/}
}

stop_exportd()
{
	kill -TERM "$1" 2>/dev/null || fail "exportd had ended before it was told to"
	wait_until 20 process_ended "$1" || fail "exportd does not end on SIGTERM"
	local status=0
	wait "$1" || status=$?
	assert_eq "$status" 0 "exit status of exportd after SIGTERM"
	servers=${servers/ $1/}
}

# A port on which nobody listens.
free_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# other_server HOW: a TCP server that is none of ours; sets other_port.
other_server()
{
	rm -f "$T/other"
	python3 - "$1" "$T/other" <<-'EOF' &
		import os, socket, sys
		s = socket.socket()
		s.bind(("127.0.0.1", 0))
		s.listen()
		with open(sys.argv[2] + ".new", "w") as f:
		    f.write(str(s.getsockname()[1]))
		os.rename(sys.argv[2] + ".new", sys.argv[2])
		held = []
		while True:
		    c, _ = s.accept()
		    if sys.argv[1] == "closes":
		        c.close()
		        continue
		    if sys.argv[1] == "talks":
		        c.sendall(b"220 mail.example.com ESMTP ready\r\n" * 4)
		    if sys.argv[1] == "echoes":
		        c.sendall(c.recv(4096))
		    if sys.argv[1] == "rejects":
		        c.recv(4096)
		        c.sendall(b"MPA ID Rep Frame" + bytes([0x60 | 0x10, 2, 0, 4, 0, 0, 0, 0]))
		    if sys.argv[1] == "revision1":
		        c.recv(4096)
		        c.sendall(b"MPA ID Rep Frame" + bytes([0x40, 1, 0, 0]))
		    held.append(c)
	EOF
	wait_until 10 test -e "$T/other"
	# shellcheck disable=SC2034 # used by the scripts
	other_port=$(cat "$T/other")
	others="${others:-} $!"
}

stop_other_servers()
{
	# shellcheck disable=SC2086
	kill $others
}

# mount_options [OPTIONS]: what a mount of exportd takes, and these.
mount_options()
{
	echo "port=$rdma_port,mountport=$tcp_port${MOUNT_OPTIONS:+,$MOUNT_OPTIONS}${1:+,$1}"
}

# mount_nfs DIR MOUNTPOINT [OPTIONS]: mounts exportd's DIR with further mount options. The array mount_env (NAME=VALUE…) goes
# to the environment of nfsrdma alone.
mount_nfs()
{
	mkdir -p "$2"
	# The daemon keeps these descriptors: they must not be a pipe that somebody waits on.
	mount_log=$T/nfsrdma.$((mount_count = ${mount_count:-0} + 1)).log
	timeout 60 env "${mount_env[@]}" "$NFSRDMA" "$SERVER_ADDRESS:$1" "$2" \
		-o "$(mount_options "${3:-}")" \
		>"$mount_log" 2>&1 </dev/null || fail "mount failed: $(tail -3 "$mount_log")"
	is_mounted "$2" || fail "nfsrdma said yes, but $2 is not mounted"
}

# Unmounts as a user would, and waits until the daemon has ended by itself.
umount_nfs()
{
	local pid
	pid=$(daemon_pid "$1") || fail "no daemon serves $1"
	timeout 60 umount "$1" || fail "cannot unmount $1"
	wait_until "${2:-30}" process_ended "$pid" || fail "the daemon of $1 goes on after the unmount"
}

# A server on a fresh directory and one mount of it: $export, $mnt.
serve_and_mount()
{
	export=${export:-$T/export}
	mnt=$T/mnt
	mkdir -p "$export"
	start_exportd "$export" --no-root-squash
	mount_nfs "$export" "$mnt" "${1:-}"
}

# PEER names a script that puts another server in exportd's place: its functions replace those above.
# shellcheck source=vm/knfsd.sh
[ -z "${PEER:-}" ] || . "$PEER"

# Forget what is cached, so that the next read comes from the server.
drop_caches()
{
	sync
	if [ -w /proc/sys/vm/drop_caches ]; then
		echo 3 >/proc/sys/vm/drop_caches
	else
		find "$1" -type f -exec python3 -c '
import os, sys
for name in sys.argv[1:]:
    fd = os.open(name, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)' {} +
	fi
}

# Everything of a tree that can be compared without reading the files: names, types, modes, owners, sizes, times, targets.
tree_list()
{
	(cd "$1" && find . -mindepth 1 \( -type d -printf '%P %y %m %U:%G %T@\n' -o -printf '%P %y %m %U:%G %s %T@ %n %l\n' \) | LC_ALL=C sort)
}

# pattern_file NAME BYTES SEED: data that nobody has by chance; the same for the same seed.
pattern_file()
{
	python3 -c '
import random, sys
left, rng = int(sys.argv[2]), random.Random(sys.argv[3])
with open(sys.argv[1], "wb") as f:
    while left:
        n = min(left, 1 << 20)
        f.write(rng.randbytes(n))
        left -= n' "$@"
}

# --- locks ------------------------------------------------------------------------------------------------------------

# locker NAME FILE HOW [WORD…]: a process that locks (see locker.py), by way of the command prefix in the array locker_in. What
# it says goes to $T/NAME.says. It holds the lock until locker_ends NAME.
declare -A locker_fd locker_pid
locker_in=()
locker()
{
	local name=$1 fd
	shift
	rm -f "$T/$name.in" "$T/$name.says"
	mkfifo "$T/$name.in"
	(
		# Whoever else has the pipe of one that locks keeps it from its end.
		for fd in "${locker_fd[@]}"; do
			exec {fd}>&-
		done
		exec "${locker_in[@]}" python3 "$lib_dir/locker.py" "$@"
	) <"$T/$name.in" >"$T/$name.says" &
	locker_pid[$name]=$!
	exec {fd}>"$T/$name.in"
	locker_fd[$name]=$fd
}

locker_has_spoken()
{
	[ -s "$T/$1.says" ]
}

# locker_says NAME WORDS: waits until it has said something; it must be that.
locker_says()
{
	wait_until "${3:-50}" locker_has_spoken "$1" || fail "$1 says nothing, but should say '$2'"
	assert_eq "$(tail -1 "$T/$1.says")" "$2" "what $1 says"
}

# It lets go by its end.
locker_ends()
{
	local fd=${locker_fd[$1]}
	exec {fd}>&-
	unset "locker_fd[$1]"
	wait "${locker_pid[$1]}" || true
}

# try_lock FILE HOW [WORD…]: what a process says that tries, and lets go at once.
try_lock()
{
	timeout 50 "${locker_in[@]}" python3 "$lib_dir/locker.py" "$@" </dev/null | head -1
}

# --- running the tests ------------------------------------------------------------------------------------------------

# Programs built with sanitizers write their complaints to a file for each process, where teardown looks for them.
sanitizers_log_to()
{
	export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$1/sanitizer"
	export UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}log_path=$1/sanitizer:print_stacktrace=1"
}

# What must be true after a test that passed, besides what it checked itself.
teardown()
{
	local mount pid
	for mount in $(mounts_below "$T"); do
		umount_nfs "$mount"
	done
	for pid in ${servers:-}; do
		stop_exportd "$pid"
	done
	if compgen -G "$T/sanitizer.*" >/dev/null; then
		cat "$T"/sanitizer.*
		fail "a sanitizer has spoken"
	fi
}

result()
{
	local verdict=$1 name=$2 seconds=$3 reason=${4:-}
	case $verdict in
	pass) printf '  ok    %s  %s s\n' "$name" "$seconds" ;;
	fail) printf '  FAIL  %s  %s s: %s\n' "$name" "$seconds" "$reason" ;;
	skip) printf '  skip  %s: %s\n' "$name" "$reason" ;;
	esac
	[ -z "${RESULTS:-}" ] || printf '%s\t%s\t%s\t%s\n' "$verdict" "$name" "$seconds" "$reason" >>"$RESULTS"
}

# Milliseconds since $1 (a value of EPOCHREALTIME), as seconds with one decimal.
seconds_since()
{
	local us=$((${EPOCHREALTIME/./} - ${1/./}))
	printf '%d.%d' $((us / 1000000)) $((us / 100000 % 10))
}

run_one_test()
{
	local name=$1 status=0 start=$EPOCHREALTIME reason log scratch full_name
	local limit_s=$((${limits[$1]:-$default_limit_s} * ${TIME_FACTOR:-1}))
	full_name=${GROUP_PREFIX:-}${group_name:-$(basename "$0" .sh)}/$name
	log=$LOGS/${full_name//\//.}.log
	: >"$log"
	scratch=$(mktemp -d "$TMPDIR/nfsrdma-test.XXXXXX")
	chmod 755 "$scratch"
	(
		sanitizers_log_to "$scratch"
		T=$scratch KEEP_LOGS_IN=$log exec python3 "$lib_dir/supervise.py" "$scratch" "$limit_s" bash "$lib_script" --one "$name"
	) >>"$log" 2>&1 </dev/null &
	supervisor_pid=$!
	wait "$supervisor_pid" || status=$?
	supervisor_pid=
	case $status in
	0) result pass "$full_name" "$(seconds_since "$start")" ;;
	77) result skip "$full_name" 0 "$(sed -n 's/^SKIPPED: //p' "$log" | tail -1)" ;;
	124)
		result fail "$full_name" "$(seconds_since "$start")" "not done within $limit_s s (see $log)"
		;;
	*)
		reason=$(sed -n 's/^FAILED: //p' "$log" | head -1)
		result fail "$full_name" "$(seconds_since "$start")" "${reason:-status $status} (see $log)"
		;;
	esac
	[ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

interrupted()
{
	# It ends and cleans up what it has started.
	[ -z "${supervisor_pid:-}" ] || { kill -TERM "$supervisor_pid" 2>/dev/null && wait "$supervisor_pid"; }
	exit 130
}

# tests_in SCRIPT: the names of its tests, in the order in which they are written.
tests_in()
{
	sed -n 's/^test_\([a-z0-9_]*\)()$/\1/p' "$1"
}

# tests_main [NAME…]: runs the tests of the calling script, in the order in which they are written; all or those named.
tests_main()
{
	if [ "${1:-}" = --one ]; then
		export T
		cd "$T"
		set -euo pipefail
		trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
		set -E
		# shellcheck disable=SC2034 # for tests that run themselves once more elsewhere
		test_name=$2
		"test_$2"
		teardown
		exit 0
	fi
	local name names own_logs='' failed=0 count=0
	if [ -z "${LOGS:-}" ]; then
		LOGS=$(mktemp -d "$TMPDIR/nfsrdma-logs.XXXXXX")
		export LOGS
		own_logs=1
	fi
	mapfile -t names < <(tests_in "$0")
	[ $# -eq 0 ] || names=("$@")
	[ ${#names[@]} -gt 0 ] || fail "$0 has no function test_NAME()"
	trap interrupted INT TERM HUP
	for name in "${names[@]}"; do
		declare -F "test_$name" >/dev/null || {
			echo "$0: no test is called $name; there are:" >&2
			tests_in "$0" | sed 's/^/  /' >&2
			return 2
		}
		run_one_test "$name" || failed=$((failed + 1))
		count=$((count + 1))
	done
	if [ -n "$own_logs" ] && [ "$failed" -eq 0 ]; then
		rm -rf "$LOGS"
	elif [ -n "$own_logs" ]; then
		echo "$failed of $count failed; logs: $LOGS"
	fi
	[ "$failed" -eq 0 ]
}

# Why this machine cannot mount anything with FUSE, or nothing if it can.
why_no_fuse()
{
	if [ ! -c /dev/fuse ]; then
		echo "no /dev/fuse"
	elif ! (: <>/dev/fuse) 2>/dev/null; then
		echo "/dev/fuse cannot be opened"
	elif [ "$(id -u)" != 0 ]; then
		echo "not root"
	fi
}
