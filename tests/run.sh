#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/run.sh [SUITE…]: installs what the tests need, builds, runs the named suites or all but vm, and ends with one line,
# "N passed, N failed, N skipped". Exit status 0 only if nothing failed.
#
# A suite is skipped, with its reason, when this machine lacks what it cannot do without (root, /dev/fuse, a Debian mirror).
# SCALE=ci|full sets sizes only. Logs go to $LOGS, or to a fresh directory that is named when something failed.

set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=lib.sh
. tests/lib.sh
# shellcheck source=../contrib/packages.sh
. contrib/packages.sh

usage()
{
	cat <<-EOF
		usage: tests/run.sh [SUITE…]
		  unit         the unit tests
		  unit-asan    the unit tests, built with AddressSanitizer and UndefinedBehaviorSanitizer
		  faults       hostile and broken peers, one line a case: what unit then leaves out, and what happens to a mount
		  lint         what tools can say about the scripts
		  conformance  what POSIX and the Linux man pages promise, on mounts of nfsrdma-exportd
		  integration  nfsrdma against nfsrdma-exportd: its promises, its errors, recovery, and real work in the mount
		  integration-asan
		               the same in small, built with sanitizers
		  unit-tsan    the unit tests, built with ThreadSanitizer
		  integration-tsan
		               with it, what has most threads in it: lanes, recovery, locks, several mounts
		  alloc        memory that READ and WRITE take, counted from outside
		  counted      registrations, windows and doorbells that READ and WRITE take, counted at the device
		  capture      what the wire carried, told by tshark
		  fuzz         each fuzz target over the inputs that are known, and for ten seconds over new ones
		  docs         commands and examples of README and docs, as they are written, on a fresh Debian 12 in a container
		  package      the Debian packages: built, installed, mounted by systemd, upgraded and removed, in containers
		  trixie       the unit tests on Debian 13, in a chroot
		All of these when none is named; and
		  vm           against the kernel's NFS/RDMA server and client, over soft-RoCE and siw, in a guest: half an
		               hour under emulation, so only when it is named
		SCALE=ci (or full) sets sizes; LOGS=DIR keeps the logs there.
	EOF
}

default_suites=(unit unit-asan unit-tsan faults lint conformance integration integration-asan integration-tsan alloc counted capture fuzz docs package trixie)
suites=("$@")
[ $# -gt 0 ] || suites=("${default_suites[@]}")
for suite in "${suites[@]}"; do
	case " ${default_suites[*]} vm " in
	*" $suite "*) ;;
	*) usage >&2 && exit 2 ;;
	esac
done

wants()
{
	local s
	for s in "${suites[@]}"; do
		case $s in $1) return 0 ;; esac
	done
	return 1
}

keep_logs=${LOGS:-}
LOGS=${LOGS:-$(mktemp -d "$TMPDIR/nfsrdma-logs.XXXXXX")}
mkdir -p "$LOGS"
RESULTS=$LOGS/results
: >"$RESULTS"
export LOGS RESULTS

count()
{
	grep -c "^$1" "$RESULTS"
}

# The last line, and the only way out once the tests have begun.
finish()
{
	local failed
	failed=$(count fail)
	[ "$failed" -eq 0 ] || printf 'failed:\n%s\nlogs: %s\n' "$(sed -n 's/^fail\t\([^\t]*\).*/  \1/p' "$RESULTS")" "$LOGS"
	echo "$(count pass) passed, $failed failed, $(count skip) skipped"
	[ -n "$keep_logs" ] || [ "$failed" -ne 0 ] || rm -rf "$LOGS"
	[ "$failed" -eq 0 ]
	exit
}

# part NAME COMMAND…: runs a part and says how long it took. A part that fails without having said which test did is a
# failure itself.
part()
{
	local name=$1 start=$EPOCHREALTIME status=0 failed_before
	shift
	failed_before=$(count fail)
	echo "== $name"
	"$@" || status=$?
	if [ "$status" -ne 0 ] && [ "$(count fail)" -eq "$failed_before" ]; then
		result fail "$name" "$(seconds_since "$start")" "ended with status $status"
	fi
	echo "== $name: $(seconds_since "$start") s"
	return "$status"
}

# build DIR [MESON OPTION…]
build()
{
	local dir=$1 log=$LOGS/$1.log
	shift
	{ [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@"; } >"$log" 2>&1 && ninja -C "$dir" >>"$log" 2>&1 && return 0
	tail -40 "$log"
	return 1
}

build_tsan()
{
	build build-tsan -Db_sanitize=thread -Db_lundef=false
}

build_asan()
{
	build build-asan -Db_sanitize=address,undefined -Db_lundef=false
}

# unit DIR SUITE [ARGUMENT…]: the unit tests as built in DIR, those that meson test picks by the arguments.
unit()
{
	local status=0 verdict name seconds reason
	rm -f "$1/meson-logs/testlog.json"
	CMOCKA_MESSAGE_OUTPUT=TAP meson test -C "$1" --no-rebuild --print-errorlogs "${@:3}" >"$LOGS/$2.log" 2>&1 || status=$?
	while IFS=$'\t' read -r verdict name seconds reason; do
		result "$verdict" "$name" "$seconds" "$reason"
	done < <(python3 tests/unit_report.py "$2" "$1/meson-logs/testlog.json" || echo $'fail\t'"$2"$'\t0\tno report')
	[ "$status" -eq 0 ] || grep -v '^ok ' "$LOGS/$2.log" | tail -60
	return "$status"
}

# The sanitizers stop a test program at their first finding.
unit_asan()
{
	ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		unit build-asan unit-asan --suite unit
}

unit_tsan()
{
	unit build-tsan unit-tsan --suite unit -t 4
}

# lint_one NAME COMMAND…: a check that passes when the command does; what it prints is its reason.
lint_one()
{
	local name=$1 start=$EPOCHREALTIME
	shift
	if "$@" >"$LOGS/lint.$name.log" 2>&1; then
		result pass "lint/$name" "$(seconds_since "$start")"
	else
		result fail "lint/$name" "$(seconds_since "$start")" "see $LOGS/lint.$name.log"
		head -20 "$LOGS/lint.$name.log"
	fi
}

# The project's files of that name; in a tree without git, all that were not built.
files()
{
	git -c safe.directory="$PWD" ls-files -- "$1" 2>/dev/null || find . -path './build*' -prune -o -type f -name "$1" -print
}

# A part sees the headers of the parts below it by name; a path upwards would go around meson.build.
no_include_upwards()
{
	# shellcheck disable=SC2046
	! grep -n '^ *# *include *"[^"]*\.\./' $(files '*.[ch]')
}

every_file_names_its_licence()
{
	local f status=0
	for f in $(files '*.[ch]') $(files '*.sh') $(files '*.py'); do
		head -3 "$f" | grep -q 'SPDX-License-Identifier: MIT' || { echo "$f" && status=1; }
	done
	return "$status"
}

# clang-format 14 may tear a comment that it reflows: "*word" where " * word" was.
comments_are_whole()
{
	# shellcheck disable=SC2046
	! grep -nE '^ \*[A-Za-z*]' $(files '*.[ch]')
}

# libnfs's decoders do not survive hostile input: see docs/SECURITY.md, which names the exception.
libnfs_only_encodes()
{
	# shellcheck disable=SC2046
	! grep -nE 'ZDR_DECODE|(rpc|nfs)_init_context' \
		$(files '*.[ch]' | grep -E '^(\./)?(src|rpcrdma|fmrpool|contrib)/' | grep -v contrib/exportd/rpcbind.c)
}

# What is suppressed are mistakes of cppcheck 2.10: it does not see that results are written whenever a function returned 0,
# and loses its way in the address of a compound literal.
cppcheck_clean()
{
	cppcheck -q --error-exitcode=1 --std=c11 --enable=warning,portability,performance -j 2 \
		--suppress=uninitvar --suppress=uninitStructMember --suppress=internalAstError \
		--suppress=missingIncludeSystem -D_GNU_SOURCE '-DNFSRDMA_VERSION=""' \
		--include=/usr/include/"$(gcc -print-multiarch)"/sys/queue.h \
		-I src -I rpcrdma -I fmrpool -I contrib/exportd src rpcrdma fmrpool contrib
}

lint()
{
	local failed_before
	failed_before=$(count fail)
	# shellcheck disable=SC2046
	lint_one shellcheck shellcheck -x $(files '*.sh') .ci/run
	lint_one no_include_upwards no_include_upwards
	lint_one every_file_names_its_licence every_file_names_its_licence
	lint_one comments_are_whole comments_are_whole
	lint_one libnfs_only_encodes libnfs_only_encodes
	lint_one cppcheck cppcheck_clean
	# Releases of clang-format differ in what they find well formatted: the project's is Debian 12's.
	if command -v clang-format-14 >/dev/null; then
		# shellcheck disable=SC2046
		lint_one clang_format clang-format-14 --dry-run -Werror $(files '*.[ch]')
	else
		result skip lint/clang_format 0 "no clang-format-14"
	fi
	[ "$(count fail)" -eq "$failed_before" ]
}

# needs_fuse SUITE COMMAND…: runs it, or skips the suite when this machine cannot mount.
needs_fuse()
{
	local suite=$1 reason
	shift
	reason=$(why_no_fuse)
	if [ -n "$reason" ]; then
		result skip "$suite" 0 "$reason"
		return 0
	fi
	"$@"
}

# What a hostile or broken server does to a mount.
fault_scripts=(tests/integration/faults.sh tests/integration/protection.sh)

faults()
{
	local status=0 script
	unit build faults --suite faults || status=1
	for script in "${fault_scripts[@]}"; do
		GROUP_PREFIX=faults/ needs_fuse faults "$script" || status=1
	done
	return "$status"
}

# All of tests/integration but suites of their own and what is called below, so that none is forgotten.
mapfile -t integration_scripts < <(printf '%s\n' tests/integration/*.sh | grep -vE '/(capture|workload)\.sh$' |
	grep -vxF "$(printf '%s\n' "${fault_scripts[@]}")")

integration()
{
	local status=0 script
	for script in "${integration_scripts[@]}"; do
		"$script" || status=1
	done
	tests/integration/workload.sh --nfsrdma "" || status=1
	tests/integration/workload.sh --nfsrdma nconnect=4 git sqlite_rollback_journal parallel_small_files fsx || status=1
	return "$status"
}

# Reads of memory that nobody wrote and undefined behaviour show in small work as well as in large.
integration_asan()
{
	local status=0 script
	export BUILD=$PWD/build-asan SCALE=small TIME_FACTOR=4 GROUP_PREFIX=asan/
	export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1
	for script in "${integration_scripts[@]}" "${fault_scripts[@]}"; do
		"$script" || status=1
	done
	tests/integration/workload.sh --nfsrdma nconnect=2 cp_a git sqlite_wal tar large_file many_names parallel_small_files fsx ||
		status=1
	return "$status"
}

# A report does not stop the daemon that it is about.
integration_tsan()
{
	local status=0 report
	export BUILD=$PWD/build-tsan SCALE=small TIME_FACTOR=8 GROUP_PREFIX=tsan/ TSAN_OPTIONS=log_path=$LOGS/tsan.report
	tests/integration/sharing.sh closed_files_are_seen_both_ways two_create_one_file fsx_across_two_mounts || status=1
	tests/integration/recovery.sh server_killed_while_writing changed_verifier_sends_again two_slot_arena_nconnect \
		lost_data_is_told_to_each_who_has_the_file_open terminated_daemon_ends_in_the_middle_of_things || status=1
	tests/integration/locks.sh grants_by_callback grant_before_the_reply grant_crosses_cancel interrupted_wait restart_reclaims \
		unlocked_while_it_is_reclaimed waits_go_on_after_a_restart locks_are_where_caches_meet || status=1
	tests/integration/workload.sh --nfsrdma nconnect=4 many_names parallel_small_files || status=1
	for report in "$LOGS"/tsan.report.*; do
		[ -e "$report" ] || continue
		result fail "tsan/${report##*.}" 0 "$(sed -n 's/^SUMMARY: //p' "$report" | head -1), see $report"
		status=1
	done
	return "$status"
}

vm()
{
	local status=0
	tests/vm/vm.sh || status=1
	tests/vm/install.sh || status=1
	return "$status"
}

packages=("${packages_build[@]}" "${packages_run[@]}" "${packages_test[@]}")
if wants lint; then
	packages+=(cppcheck shellcheck)
	grep -q '^VERSION_ID="12"' /etc/os-release && packages+=(clang-format-14)
fi
wants 'integration*' && packages+=("${packages_bench[@]}")
# The project's fuzzer is the one of Debian 12.
wants fuzz && grep -q '^VERSION_ID="12"' /etc/os-release && packages+=("${packages_fuzz[@]}")
wants trixie && packages+=(mmdebstrap)
wants docs && packages+=(mmdebstrap)
wants package && packages+=(debhelper dpkg-dev lintian mmdebstrap)
wants vm && packages+=(debhelper dpkg-dev e2fsprogs mmdebstrap qemu-system-x86)
part packages packages_install "${packages[@]}" || finish

if wants 'unit' || wants faults || wants conformance || wants integration || wants alloc || wants counted || wants capture || wants vm; then
	part build build build || finish
fi
if wants '*-asan'; then
	part build-asan build_asan || finish
fi
if wants '*-tsan'; then
	part build-tsan build_tsan || finish
fi
not_twice=()
wants faults && not_twice=(--no-suite faults)
for suite in "${suites[@]}"; do
	case $suite in
	unit) part unit unit build unit --suite unit "${not_twice[@]}" ;;
	unit-asan) part unit-asan unit_asan ;;
	faults) part faults faults ;;
	lint) part lint lint ;;
	conformance) part conformance needs_fuse conformance tests/conformance/conformance.sh ;;
	integration) part integration needs_fuse integration integration ;;
	integration-asan) part integration-asan needs_fuse integration-asan eval '(integration_asan)' ;;
	unit-tsan) part unit-tsan unit_tsan ;;
	integration-tsan) part integration-tsan needs_fuse integration-tsan eval '(integration_tsan)' ;;
	alloc) part alloc needs_fuse alloc tests/alloc/alloc.sh ;;
	counted) part counted needs_fuse counted tests/counted/counted.sh ;;
	capture) part capture needs_fuse capture tests/integration/capture.sh ;;
	fuzz) part fuzz tests/fuzz/fuzz.sh smoke ;;
	docs) part docs tests/docs.sh ;;
	package) part package tests/package.sh ;;
	trixie) part trixie tests/trixie.sh ;;
	vm) part vm vm ;;
	esac
done
finish
