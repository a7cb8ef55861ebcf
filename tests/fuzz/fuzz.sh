#!/bin/bash
# SPDX-License-Identifier: MIT
#
# fuzz.sh smoke [TARGET…]        what CI does: each target over the inputs that are known, and for $SECONDS_EACH seconds (10)
#                                over new ones, from a fixed seed; two targets at a time
# fuzz.sh long MINUTES [TARGET…] each target until it has had so many minutes of processor time; goes on where it was
# fuzz.sh coverage [TARGET…]     which lines the inputs of `long` reach, file by file
# fuzz.sh keep [TARGET…]         those of these inputs that reach something which the first inputs do not: tests/fuzz/corpus
#
# A finding fails, and its input is kept: the path is told. Builds itself, in build-fuzz (coverage: build-fuzz-coverage), with
# clang 14; see docs/FUZZING.md.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
set -u
cd "$source_dir" || exit 1
corpus=$source_dir/tests/fuzz/corpus
long=$source_dir/build-fuzz/long
findings=${LOGS:-$source_dir/build-fuzz}/findings
fuzz_options=(-rss_limit_mb=2048 -timeout=20 -max_len=4096 -print_final_stats=1)
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1

# build DIR [CFLAGS]
build()
{
	{ [ -f "$1/build.ninja" ] || CC=clang-14 CFLAGS="${2:-}" meson setup "$1" -Dfuzz=true; } >"$1.log" 2>&1 &&
		ninja -C "$1" fuzz >>"$1.log" 2>&1 && rm -f "$1.log" && return 0
	tail -40 "$1.log"
	return 1
}

targets()
{
	local f
	for f in build-fuzz/tests/fuzz/fuzz_*; do
		[ -d "$f" ] || echo "${f##*/fuzz_}"
	done
}

# The directories of known inputs.
known()
{
	local d
	for d in "$seeds/$1" "$corpus/$1"; do
		[ ! -d "$d" ] || echo "$d"
	done
}

smoke_one()
{
	local target=$1 log=${LOGS:-$work}/fuzz_$1.log start=$EPOCHREALTIME new
	new=$(mktemp -d "$work/new.XXXXXX")
	# shellcheck disable=SC2046 # directories without spaces
	if "build-fuzz/tests/fuzz/fuzz_$target" "${fuzz_options[@]}" -seed=1 -max_total_time="${SECONDS_EACH:-10}" \
		-artifact_prefix="$findings/$target-" "$new" $(known "$target") >"$log" 2>&1; then
		result pass "fuzz/$target" "$(seconds_since "$start")"
	else
		result fail "fuzz/$target" "$(seconds_since "$start")" \
			"$(sed -n 's/^.*Test unit written to //p' "$log" | tail -1), see $log"
		grep -aE 'ERROR|runtime error|does not hold' "$log" | head -5
		touch "$work/failed"
	fi
}

smoke()
{
	local target
	for target; do
		[ "$(jobs -pr | wc -l)" -lt 2 ] || wait -n
		smoke_one "$target" &
	done
	wait
	[ ! -e "$work/failed" ]
}

# Slices of a minute, so that what others take of the processor does not count.
long_one()
{
	local target=$1 limit=$(($2 * 60)) cpu=0 runs=0 user system log=$long/$1.log TIMEFORMAT='%U %S'
	mkdir -p "$long/$target"
	[ ! -f "$long/$target.sum" ] || read -r cpu runs <"$long/$target.sum"
	while awk "BEGIN { exit !($cpu < $limit) }"; do
		# shellcheck disable=SC2046
		if ! { time "build-fuzz/tests/fuzz/fuzz_$target" "${fuzz_options[@]}" -max_total_time=60 \
			-artifact_prefix="$findings/$target-" "$long/$target" $(known "$target") >"$log" 2>&1; } 2>"$long/$target.time"; then
			echo "$target: $(sed -n 's/^.*Test unit written to //p' "$log" | tail -1), see $log"
			return 1
		fi
		read -r user system <"$long/$target.time"
		cpu=$(awk "BEGIN { print $cpu + $user + $system }")
		runs=$((runs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")))
		echo "$cpu $runs" >"$long/$target.sum"
	done
	awk "BEGIN { printf \"%s: %.1f minutes of processor time, %d inputs\\n\", \"$target\", $cpu / 60, $runs }"
}

long()
{
	local target status=0 minutes=$1
	shift
	for target; do
		long_one "$target" "$minutes" || status=1
	done
	return "$status"
}

coverage()
{
	local target
	# meson runs what it compiles to try the compiler.
	LLVM_PROFILE_FILE=/dev/null build build-fuzz-coverage '-fprofile-instr-generate -fcoverage-mapping' || return 1
	for target; do
		mkdir -p "$long/$target"
		# shellcheck disable=SC2046
		LLVM_PROFILE_FILE=$work/$target.raw "build-fuzz-coverage/tests/fuzz/fuzz_$target" "${fuzz_options[@]}" -runs=0 \
			"$long/$target" $(known "$target") >"$work/log" 2>&1 || { tail "$work/log" && return 1; }
		llvm-profdata-14 merge -o "$work/$target.profile" "$work/$target.raw" || return 1
		echo "== $target"
		llvm-cov-14 report "build-fuzz-coverage/tests/fuzz/fuzz_$target" -instr-profile="$work/$target.profile" \
			-ignore-filename-regex='tests/fuzz/' | awk '$1 ~ /[.]/ && $8 > 0 && $10 != "0.00%" { printf "%-50s %5d lines %8s\n", $1, $8, $10 }'
	done
}

# By the branches that they reach: how often each is taken would keep hundreds.
keep()
{
	local target f kept
	for target; do
		kept=$work/kept/$target
		mkdir -p "$kept" "$corpus/$target" "$long/$target"
		cp "$seeds/$target"/* "$kept"
		"build-fuzz/tests/fuzz/fuzz_$target" -set_cover_merge=1 -use_counters=0 "$kept" "$long/$target" \
			"$corpus/$target" >"$work/log" 2>&1 || { tail "$work/log" && return 1; }
		rm -f "$corpus/$target"/*
		for f in "$kept"/*; do
			[ -e "$seeds/$target/${f##*/}" ] || cp "$f" "$corpus/$target"
		done
	done
}

command -v clang-14 >/dev/null || { result skip fuzz 0 "no clang-14" && exit 0; }
build build-fuzz || exit 1
what=${1:-smoke}
[ $# -eq 0 ] || shift
args=()
if [ "$what" = long ]; then
	args=("$1")
	shift
fi
if [ $# -eq 0 ]; then
	mapfile -t all < <(targets)
	set -- "${all[@]}"
fi
# In memory where there is some: one target makes files by the thousand.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
work=$(mktemp -d "$TMPDIR/fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
seeds=$work/seeds
python3 tests/fuzz/seeds.py "$seeds" || exit 1
mkdir -p "$findings" "$long"
case $what in
smoke | long | coverage | keep) "$what" "${args[@]}" "$@" ;;
*) sed -n 's/^# \(fuzz\.sh\)/\1/p' "$0" >&2 && exit 2 ;;
esac
