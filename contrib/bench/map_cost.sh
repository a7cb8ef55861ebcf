#!/bin/bash
# SPDX-License-Identifier: MIT
#
# contrib/bench/map_cost.sh [OPTION OF map_cost…]: what mapping memory for an RPC costs, over softiwarp on this machine.
# contrib/bench/map_cost.sh --guest [OPTION…]: the same in the guest of tests/vm/, over soft-RoCE and siw, on each kernel of
# KERNELS ("6.1 6.12" when not set). As root; boots four guests, one after the other.
#
# The tables are printed; they and the figures as CSV are also kept in $OUT (build/bench when not set). See
# docs/PERFORMANCE.md.

# shellcheck disable=SC2034,SC2154 # limits is of tests/lib.sh
# shellcheck source=../../tests/vm/vm.sh
. "$(dirname "$0")/../../tests/vm/vm.sh"

OUT=$(realpath -m "${OUT:-$build_dir/bench}")
options=${options:-} # those of map_cost, for the guests
export OUT options

# in_guest_over DEVICE
in_guest_over()
{
	in_guest map_cost "$1 $options"
	cp "$share/out/map_cost.csv" "$OUT/map_cost.$KERNEL.$1.csv"
	cp "$share/out/map_cost.txt" "$OUT/map_cost.$KERNEL.$1.txt"
}

limits[rxe]=1800
test_rxe()
{
	in_guest_over rxe
}

limits[siw]=1800
test_siw()
{
	in_guest_over siw
}

on_this_machine()
{
	mkdir -p "$OUT"
	"$build_dir/contrib/bench/map_cost" --csv="$OUT/map_cost.softiwarp.csv" "$@" | tee "$OUT/map_cost.softiwarp.txt"
	return "${PIPESTATUS[0]}"
}

in_guests()
{
	local file kernel kernels=$KERNELS
	mkdir -p "$OUT"
	rm -f "$OUT"/map_cost.*.{rxe,siw}.{csv,txt}
	for kernel in $kernels; do # side by side, each would be measured by the other
		KERNELS=$kernel vm_main || return
	done
	for file in "$OUT"/map_cost.*.{rxe,siw}.txt; do
		printf '\n%s\n' "$file"
		cat "$file"
	done
}

case ${1:-} in
--one | --kernel) vm_main "$@" ;;
--guest) shift && options=$* && in_guests ;;
*) on_this_machine "$@" ;;
esac
