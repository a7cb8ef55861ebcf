#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""report.py CSV [--plot FILE.svg]: tables of Markdown of what workloads.py has written, and a plot by gnuplot.

Each figure is the median of the rounds. A multiple is that of the first target's.
"""

import argparse
import csv
import math
import statistics
import subprocess

BULK_BYTES = 64 << 10  # an operation that moves so much is told as throughput


def median(rows, column):
    values = [float(r[column]) for r in rows if r[column]]
    return statistics.median(values) if values else None


def is_bulk(rows):
    moved = median(rows, "mib_per_s")
    return bool(moved) and moved * (1 << 20) >= BULK_BYTES * median(rows, "operations_per_s")


def figure(value):
    """To three digits, and no exponent."""
    if value is None:
        return "-"
    before = math.floor(math.log10(abs(value))) if value else 0
    return "%.*f" % (max(2 - before, 0), value)


class Report:
    def __init__(self, rows):
        self.rows = {}
        for r in rows:
            self.rows.setdefault((r["workload"], r["target"]), []).append(r)
        self.workloads = list(dict.fromkeys(r["workload"] for r in rows))
        self.targets = list(dict.fromkeys(r["target"] for r in rows))

    def rate(self, workload, target):
        rows = self.rows.get((workload, target))
        return median(rows, "mib_per_s" if is_bulk(rows) else "operations_per_s") if rows else None

    def multiple(self, workload, target):
        """Of the first target's rate; None when one of them was not measured."""
        first, this = self.rate(workload, self.targets[0]), self.rate(workload, target)
        return this / first if first and this else None

    def unit(self, workload):
        rows = next(rows for (w, _), rows in self.rows.items() if w == workload)
        return "MiB/s" if is_bulk(rows) else "/s"

    def table(self, title, cell):
        print("\n| %s | %s |\n|---%s|" % (title, " | ".join(self.targets), "|---" * len(self.targets)))
        for workload in self.workloads:
            cells = [cell(workload, t) if (workload, t) in self.rows else "-" for t in self.targets]
            print("| %s | %s |" % (workload, " | ".join(cells)))

    def rate_cell(self, workload, target):
        rate = "%s %s" % (figure(self.rate(workload, target)), self.unit(workload))
        multiple = self.multiple(workload, target)
        return rate if target == self.targets[0] or multiple is None else "%s (%.2f)" % (rate, multiple)

    def latency_cell(self, workload, target):
        rows = self.rows[workload, target]
        p50, p99 = median(rows, "p50_us"), median(rows, "p99_us")
        return "-" if p50 is None else "%s / %s" % (figure(p50), figure(p99))

    def cpu_cell(self, workload, target):
        rows = self.rows[workload, target]
        if is_bulk(rows):
            return "%s s/GiB" % figure(median(rows, "cpu_s_per_gib"))
        return "%s s/1000" % figure(median(rows, "cpu_s_per_1000_operations"))

    def print(self):
        rounds = max(len(rows) for rows in self.rows.values())
        print("Medians of %d rounds; in brackets the multiple of %s." % (rounds, self.targets[0]))
        self.table("rate", self.rate_cell)
        self.table("latency, median / 99th percentile, µs", self.latency_cell)
        self.table("CPU time of application and client", self.cpu_cell)

    def plot(self, path):
        """Bars for each workload: each target's multiple of the first one's rate."""
        lines = ["workload " + " ".join('"%s"' % t for t in self.targets)]
        for workload in self.workloads:
            multiples = [self.multiple(workload, t) for t in self.targets]
            lines.append(" ".join([workload] + ["?" if m is None else "%.3f" % m for m in multiples]))
        script = "\n".join([
            "$data << END", *lines, "END",
            "set terminal svg size 1400,600 background 'white'",
            "set output '%s'" % path.replace("'", "''"),
            "set datafile missing '?'",
            "set style data histograms",
            "set style fill solid",
            "set ylabel 'multiple of the rate of the first'",
            "set yrange [0:*]",
            "set grid ytics",
            "set xtics rotate by -35 noenhanced",
            "set key outside above noenhanced autotitle columnhead",
            "plot for [i=2:%d] $data using i:xtic(1)" % (len(self.targets) + 1),
        ])
        subprocess.run(["gnuplot"], input=script.encode(), check=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("csv")
    p.add_argument("--plot")
    args = p.parse_args()
    with open(args.csv, encoding="utf-8", newline="") as f:
        report = Report(list(csv.DictReader(f)))
    report.print()
    if args.plot:
        report.plot(args.plot)


main()
