#!/bin/bash
# SPDX-License-Identifier: MIT
#
# contrib/bench/run.sh [OPTION…] [TARGET…]: the same workloads on several mounts in turn, all on one tmpfs of this machine.
# As root. A target is
#
#	local		the tmpfs itself
#	passthrough	libfuse's example passthrough_ll over it: what FUSE costs
#	nfsrdma[:OPTIONS]	nfsrdma over softiwarp against nfsrdma-exportd
#	/DIR		whatever is mounted there
#
# When none is named: passthrough, and nfsrdma with windows, with a persistent key, and with 2 and 4 lanes. Rates are compared
# with those of the first. Options:
#
#	--rounds N	how often the targets take turns (5)
#	--out DIR	where figures.csv, report.md and, if there is a gnuplot, plot.svg go (build/bench)
#	--only A,B…	workloads: workloads.py --list
#	--mib N --files N --seconds N	the large file, how many small ones, how long random I/O goes on (512, 2000, 2)
#
# docs/PERFORMANCE.md says how the figures are to be read.

# shellcheck source=../../tests/lib.sh
. "$(dirname "$0")/../../tests/lib.sh"
# shellcheck source=../packages.sh
. "$source_dir/contrib/packages.sh"
bench_dir=$source_dir/contrib/bench

usage()
{
	sed -n 's/^# \{0,1\}//; 4,21p' "$0" >&2
	exit 2
}

# The example as Debian's libfuse3-dev has it, built once.
build_passthrough()
{
	local examples=/usr/share/doc/libfuse3-dev/examples name
	passthrough_ll=$T/passthrough_ll
	for name in passthrough_ll.c passthrough_helpers.h; do
		zcat -f "$examples/$name"* >"$T/$name"
	done
	# shellcheck disable=SC2046 # flags
	gcc -O2 -w -D_FILE_OFFSET_BITS=64 "$T/passthrough_ll.c" -o "$passthrough_ll" $(pkg-config --cflags --libs fuse3) -lpthread
}

# measure DIR [OPTION OF workloads.py…]
measure()
{
	local dir=$1
	shift
	"$bench_dir/workloads.py" "$dir" --target "$target" --round "$round" --csv "$OUT/figures.csv" --scratch "$T" \
		--tar "$T/tree.tar" "${workload_options[@]}" "$@"
}

passthrough_is_mounted()
{
	is_mounted "$T/mnt" || process_ended "$passthrough_pid"
}

on_passthrough()
{
	"$passthrough_ll" -f -o "source=$T/store/passthrough" "$T/mnt" >"$T/passthrough.log" 2>&1 &
	passthrough_pid=$!
	wait_until 20 passthrough_is_mounted
	is_mounted "$T/mnt" || fail "passthrough_ll does not mount: $(tail -1 "$T/passthrough.log")"
	measure "$T/mnt" --pid "$passthrough_pid"
	umount "$T/mnt"
	wait "$passthrough_pid"
}

# on_nfsrdma OPTIONS: a server of its own each time.
on_nfsrdma()
{
	start_exportd "$T/store/export" --no-root-squash --state "$T/state"
	mount_nfs "$T/store/export" "$T/mnt" "device=softiwarp${1:+,$1}"
	measure "$T/mnt" --pid "$(daemon_pid "$T/mnt")" --server-pid "$exportd_pid"
	umount_nfs "$T/mnt"
	stop_exportd "$exportd_pid"
}

on_target()
{
	echo "round $round: $target"
	case $target in
	local) measure "$T/store/local" ;;
	passthrough) on_passthrough ;;
	nfsrdma) on_nfsrdma "" ;;
	nfsrdma:*) on_nfsrdma "${target#nfsrdma:}" ;;
	/*) measure "$target" ;;
	esac
}

report()
{
	local plot=()
	! command -v gnuplot >/dev/null || plot=(--plot "$OUT/plot.svg")
	"$bench_dir/report.py" "$OUT/figures.csv" "${plot[@]}" >"$OUT/report.md"
	cat "$OUT/report.md"
	echo
	echo "kept in $OUT: figures.csv, report.md${plot[0]:+, plot.svg}"
}

parse()
{
	rounds=5 OUT=$build_dir/bench targets=() workload_options=()
	while [ $# -gt 0 ]; do
		case $1 in
		local | passthrough | nfsrdma | nfsrdma:* | /*) targets+=("$1") && shift && continue ;;
		esac
		[ $# -ge 2 ] || usage
		case $1 in
		--rounds) rounds=$2 ;;
		--out) OUT=$(realpath -m "$2") ;;
		--only | --mib | --files | --seconds) workload_options+=("$1" "$2") ;;
		*) usage ;;
		esac
		shift 2
	done
	[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage
	[ ${#targets[@]} -gt 0 ] || targets=(passthrough nfsrdma:memreg=window nfsrdma:memreg=persistent nfsrdma:nconnect=2 nfsrdma:nconnect=4)
}

# In the scratch directory $T, which is swept when this ends.
inside()
{
	mkdir -p "$OUT" "$T/store" "$T/mnt"
	rm -f "$OUT"/{figures.csv,report.md,plot.svg}
	build_passthrough
	tar -C /usr/include -cf "$T/tree.tar" linux
	mount -t tmpfs -o size=75% tmpfs "$T/store"
	mkdir "$T"/store/{local,passthrough,export}
	for ((round = 1; round <= rounds; round++)); do
		for target in "${targets[@]}"; do
			on_target
		done
	done
	umount "$T/store"
	report
}

if [ "${1:-}" = --inside ]; then
	set -euo pipefail
	parse "${@:2}"
	inside
	exit
fi
parse "$@"
reason=$(why_no_fuse)
[ -z "$reason" ] || { echo "cannot be run here: $reason" >&2 && exit 1; }
packages_install "${packages_build[@]}" "${packages_run[@]}" "${packages_bench[@]}" || exit
[ -x "$NFSRDMA" ] || { meson setup "$build_dir" "$source_dir" && ninja -C "$build_dir"; } || exit
T=$(mktemp -d "$TMPDIR/nfsrdma-bench.XXXXXX")
chmod 755 "$T"
export T
exec python3 "$lib_dir/supervise.py" "$T" 86400 "$0" --inside "$@"
