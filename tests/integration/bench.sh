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

# Something of each kind of workload, of what FUSE alone is and of nfsrdma.
test_run()
{
	local only=seq_write,seq_read,rand_read_16,create,ls_l,storm
	TMPDIR=$T "$source_dir/contrib/bench/run.sh" --rounds 1 --mib 4 --files 20 --seconds 0.1 --only "$only" --out "$T/out" \
		passthrough nfsrdma:nconnect=2 >"$T/report" 2>&1 || { cat "$T/report" && fail "run.sh fails"; }
	cat "$T/report"
	for workload in ${only//,/ }; do
		grep -qE "^\| $workload \| [0-9.]+ (MiB)?/s \| [0-9.]+ (MiB)?/s \([0-9.]+\) \|\$" "$T/out/report.md" ||
			fail "the report has no line of $workload's rates"
	done
	python3 - "$T/out/figures.csv" "$only" <<-'EOF'
		import csv, sys
		rows = list(csv.DictReader(open(sys.argv[1])))
		want = {(t, w, "1") for t in ("passthrough", "nfsrdma:nconnect=2") for w in sys.argv[2].split(",")}
		assert {(r["target"], r["workload"], r["round"]) for r in rows} == want and len(rows) == len(want), rows
		for r in rows:
		    assert float(r["seconds"]) > 0 and int(r["operations"]) > 0 and float(r["operations_per_s"]) > 0, r
		    assert float(r["cpu_s"]) > 0 and (float(r["server_cpu_s"]) > 0) == r["target"].startswith("nfsrdma"), r
		    if r["workload"] in ("seq_write", "seq_read", "rand_read_16"):
		        assert float(r["mib_per_s"]) > 0 and 0 < float(r["p50_us"]) <= float(r["p99_us"]), r
	EOF
}

tests_main "$@"
