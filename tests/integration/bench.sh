#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The benchmarks of contrib/bench run, and what they print is well-formed. Not their times.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

test_map_cost()
{
	"$build_dir/contrib/bench/map_cost" --rounds=2 --operations=5 --csv="$T/figures.csv" >"$T/tables"
	cat "$T/tables"
	assert_eq "$(grep -c '^| [0-9]* KiB |' "$T/tables")" 15 "rows of tables: 3 operations, 5 sizes"
	python3 - "$T/figures.csv" <<-'EOF'
		import csv, sys
		rows = list(csv.DictReader(open(sys.argv[1])))
		sizes = [4096, 16384, 65536, 262144, 1048576]
		plain = ["window", "dynamic", "persistent"]
		strategies = {"map": plain, "read": plain + ["window own invalidate"], "write": plain + ["window own invalidate"]}
		want = {(op, s, n) for op in strategies for s in strategies[op] for n in sizes}
		got = {(r["operation"], r["strategy"], int(r["bytes"])): r for r in rows}
		assert set(got) == want and len(rows) == len(want), set(got) ^ want
		for (op, strategy, size), r in got.items():
		    median, p99, cpu, ratio = (float(r[k]) for k in ("median_us", "p99_us", "cpu_us", "ratio"))
		    assert 0 < median <= p99 and cpu > 0, r
		    base = float(got[op, "window", size]["median_us"])
		    # Each is rounded to a thousandth.
		    assert abs(ratio * base - median) <= 0.001 * (ratio + base + 1), (r, base)
		    assert r["device"] == "softiwarp" and r["operations"] == "10" and r["ratio_to"] == "window", r
	EOF
}

tests_main "$@"
