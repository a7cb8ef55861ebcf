#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""workloads.py DIR: runs workloads in a directory below DIR and writes what they took, a row of CSV each.

DIR is a mount, or any directory; the directory that is made in it is removed at the end. Latencies are those of one
operation as the application sees them. CPU time is that of the application and of the processes named by --pid, the client
of the file system; that of the processes named by --server-pid is told apart. Linux charges what the kernel does for a
process to that process, but for its own threads and some interrupts.

fio does the reading and writing of large files; the rest is done here.
"""

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import time

COLUMNS = (
    "target workload round seconds operations mib_per_s operations_per_s p50_us p99_us"
    " cpu_s server_cpu_s cpu_s_per_gib cpu_s_per_1000_operations"
).split()
KIB, MIB = 1 << 10, 1 << 20


class Figures:
    """Of one workload: how long it took, what was done, and the latency of each operation, or two percentiles."""

    def __init__(self, seconds, operations, moved=0, p50_us=None, p99_us=None):
        self.seconds, self.operations, self.moved = seconds, operations, moved
        self.p50_us, self.p99_us = p50_us, p99_us


def of_latencies(seconds, latencies_ns, moved=0):
    latencies_ns.sort()
    n = len(latencies_ns)
    return Figures(seconds, n, moved, latencies_ns[n // 2] / 1e3, latencies_ns[n * 99 // 100] / 1e3)


def cpu_of(pid):
    """Seconds of CPU time of a process, its ended threads included: clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | 2)


def own_cpu():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def forget(what):
    """What the kernel has cached: 2: names and attributes, 3: data too."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
        f.write(str(what))


def timed(function, items):
    """Calls function for each item; the Figures of it."""
    latencies, clock = [], time.perf_counter_ns
    start = clock()
    for item in items:
        before = clock()
        function(item)
        latencies.append(clock() - before)
    return of_latencies((clock() - start) / 1e9, latencies)


ALL = {}


def workload(what, needs=None, cold=None):
    """Names a method of Workloads as one; what it needs is made, and what the kernel has cached forgotten, before it starts."""

    def note(method):
        ALL[method.__name__] = (what, needs, cold)
        return method

    return note


class Workloads:
    """In the order in which they are run."""

    def __init__(self, where, args):
        self.where, self.args = where, args
        self.large = os.path.join(where, "large")
        self.small = os.path.join(where, "small")
        self.names = ["f%06d" % i for i in range(args.files)]

    def fio(self, direction, **options):
        job = {"name": "w", "filename": self.large, "rw": direction, "size": self.args.mib * MIB, "ioengine": "psync",
               "group_reporting": 1, "randrepeat": 1, "thread": 1, "fallocate": "none", "invalidate": 1,
               "clat_percentiles": 0, "lat_percentiles": 1} | options
        command = ["fio", "--output-format=json"] + ["--%s=%s" % (k, v) for k, v in job.items()]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=self.args.scratch)
        report = json.loads(done.stdout[done.stdout.index(b"{"):])["jobs"][0]
        half = report["write" if "write" in direction else "read"]
        percentiles = half["lat_ns"]["percentile"]
        return Figures(half["runtime"] / 1e3, half["total_ios"], half["io_bytes"],
                       percentiles["50.000000"] / 1e3, percentiles["99.000000"] / 1e3)

    def fio_random(self, direction, depth):
        return self.fio(direction, bs="4k", direct=1, ioengine="libaio", iodepth=depth, time_based=1,
                        runtime="%dms" % (self.args.seconds * 1000))

    def prepare(self, needs, cold):
        if needs == "large" and (not os.path.exists(self.large) or os.path.getsize(self.large) < self.args.mib * MIB):
            self.seq_write()
        if needs == "small" and not os.path.exists(self.small):
            self.create()
        if cold:
            forget(cold)

    # --- large files ---

    @workload("sequential write, 1 MiB, and fsync")
    def seq_write(self):
        if os.path.exists(self.large):
            os.unlink(self.large)
        return self.fio("write", bs="1M", end_fsync=1)

    @workload("sequential read, 1 MiB, cold", needs="large")
    def seq_read(self):
        return self.fio("read", bs="1M")

    @workload("sequential read, 1 MiB, O_DIRECT, depth 4", needs="large")
    def seq_read_direct(self):
        return self.fio("read", bs="1M", direct=1, ioengine="libaio", iodepth=4)

    @workload("sequential read, 1 MiB, O_DIRECT, 4 jobs", needs="large")
    def seq_read_4_jobs(self):
        # A quarter of the file each.
        quarter = self.args.mib // 4 * MIB
        return self.fio("read", bs="1M", direct=1, numjobs=4, size=quarter, offset_increment=quarter)

    @workload("random read, 4 KiB, O_DIRECT, depth 1", needs="large")
    def rand_read_1(self):
        return self.fio_random("randread", 1)

    @workload("random read, 4 KiB, O_DIRECT, depth 16", needs="large")
    def rand_read_16(self):
        return self.fio_random("randread", 16)

    @workload("random read, 4 KiB, O_DIRECT, depth 64", needs="large")
    def rand_read_64(self):
        return self.fio_random("randread", 64)

    @workload("random write, 4 KiB, O_DIRECT, depth 1", needs="large")
    def rand_write_1(self):
        return self.fio_random("randwrite", 1)

    @workload("random write, 4 KiB, O_DIRECT, depth 16", needs="large")
    def rand_write_16(self):
        return self.fio_random("randwrite", 16)

    @workload("random write, 4 KiB, O_DIRECT, depth 64", needs="large")
    def rand_write_64(self):
        return self.fio_random("randwrite", 64)

    @workload("sequential write, 4 KiB, buffered, and fsync")
    def buffered_write(self):
        if os.path.exists(self.large):
            os.unlink(self.large)
        return self.fio("write", bs="4k", size=max(self.args.mib // 4, 1) * MIB, end_fsync=1)

    # --- small files and names ---

    @workload("create a file of 4 KiB")
    def create(self):
        data = bytes(4 * KIB)
        os.mkdir(self.small)

        def one(name):
            fd = os.open(os.path.join(self.small, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            os.write(fd, data)
            os.close(fd)

        return timed(one, self.names)

    @workload("stat, cold", needs="small", cold=2)
    def stat_cold(self):
        return timed(lambda name: os.stat(os.path.join(self.small, name)), self.names)

    @workload("read a file of 4 KiB, cold", needs="small", cold=3)
    def read_small(self):
        def one(name):
            fd = os.open(os.path.join(self.small, name), os.O_RDONLY)
            assert len(os.read(fd, 8 * KIB)) == 4 * KIB
            os.close(fd)

        return timed(one, self.names)

    @workload("ls -l, cold, for each name", needs="small", cold=2)
    def ls_l(self):
        start = time.perf_counter()
        listed = subprocess.run(["ls", "-l", self.small], stdout=subprocess.PIPE, check=True)
        seconds = time.perf_counter() - start
        assert len(listed.stdout.splitlines()) == len(self.names) + 1
        return Figures(seconds, len(self.names))

    @workload("unlink", needs="small")
    def unlink(self):
        figures = timed(lambda name: os.unlink(os.path.join(self.small, name)), self.names)
        os.rmdir(self.small)
        return figures

    @workload("metadata storm, 8 processes")
    def storm(self):
        # Each operation by its own name: mkdir, create, chmod, rename, stat, unlink, rmdir.
        each, kinds = max(len(self.names) // 16, 4), 7

        def work(number):
            top = os.path.join(self.where, "storm%d" % number)
            os.mkdir(top)
            for name in self.names[:each]:
                directory = os.path.join(top, name)
                os.mkdir(directory)
                a, b = os.path.join(directory, "a"), os.path.join(directory, "b")
                os.close(os.open(a, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                os.chmod(a, 0o600)
                os.rename(a, b)
                os.stat(b)
                os.unlink(b)
                os.rmdir(directory)
            os.rmdir(top)

        start, pids = time.perf_counter(), []
        for number in range(8):
            pid = os.fork()
            if pid == 0:
                try:
                    work(number)
                except OSError as e:
                    print(e, file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            pids.append(pid)
        failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
        assert not failed
        return Figures(time.perf_counter() - start, 8 * each * kinds)

    @workload("untar a source tree, for each member")
    def untar(self):
        into = os.path.join(self.where, "tree")
        members = subprocess.run(["tar", "-tf", self.args.tar], stdout=subprocess.PIPE, check=True).stdout.count(b"\n")
        os.mkdir(into)
        start = time.perf_counter()
        subprocess.run(["tar", "-xf", self.args.tar, "-C", into], check=True)
        seconds = time.perf_counter() - start
        shutil.rmtree(into)
        return Figures(seconds, members)


def rounded(value, digits):
    return "" if value is None else "%.*f" % (digits, value)


def row(args, name, figures, cpu, server_cpu):
    gib = figures.moved / (1 << 30)
    return {
        "target": args.target,
        "workload": name,
        "round": args.round,
        "seconds": rounded(figures.seconds, 4),
        "operations": figures.operations,
        "mib_per_s": rounded(figures.moved / MIB / figures.seconds if figures.moved else None, 1),
        "operations_per_s": rounded(figures.operations / figures.seconds, 1),
        "p50_us": rounded(figures.p50_us, 1),
        "p99_us": rounded(figures.p99_us, 1),
        "cpu_s": rounded(cpu, 4),
        "server_cpu_s": rounded(server_cpu, 4),
        "cpu_s_per_gib": rounded(cpu / gib if gib else None, 3),
        "cpu_s_per_1000_operations": rounded(cpu * 1000 / figures.operations, 4),
    }


def measure(workloads, name, args):
    what, needs, cold = ALL[name]
    workloads.prepare(needs, cold)
    clients, servers = [own_cpu()] + [cpu_of(p) for p in args.pid], [cpu_of(p) for p in args.server_pid]
    figures = getattr(workloads, name)()
    cpu = own_cpu() + sum(cpu_of(p) for p in args.pid) - sum(clients)
    server_cpu = sum(cpu_of(p) for p in args.server_pid) - sum(servers)
    print("  %-46s %s" % (what, spoken(figures)), file=sys.stderr, flush=True)
    return row(args, name, figures, cpu, server_cpu)


def spoken(figures):
    if figures.moved > figures.operations * 64 * KIB:
        return "%8.0f MiB/s" % (figures.moved / MIB / figures.seconds)
    return "%8.0f/s" % (figures.operations / figures.seconds)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", nargs="?")
    p.add_argument("--target", default="", help="what the directory is, for the table")
    p.add_argument("--round", type=int, default=1)
    p.add_argument("--csv", help="append rows to this file")
    p.add_argument("--only", default=",".join(ALL), help="names of workloads, with commas between them")
    p.add_argument("--list", action="store_true", help="list the workloads")
    p.add_argument("--mib", type=int, default=512, help="size of the large file")
    p.add_argument("--files", type=int, default=2000, help="how many small files")
    p.add_argument("--seconds", type=float, default=2, help="how long random I/O goes on")
    p.add_argument("--tar", help="the archive to unpack")
    p.add_argument("--scratch", default="/tmp", help="where fio may leave its files")
    p.add_argument("--pid", type=int, action="append", default=[])
    p.add_argument("--server-pid", type=int, action="append", default=[])
    args = p.parse_args()
    unknown = [name for name in args.only.split(",") if name not in ALL]
    if unknown or not (args.dir or args.list):
        p.error("no such workload: " + ", ".join(unknown) if unknown else "no directory")
    return args


def main():
    args = arguments()
    if args.list:
        for name, (what, _, _) in ALL.items():
            print("%-16s %s" % (name, what))
        return
    where = os.path.join(args.dir, "bench.%d" % os.getpid())
    os.mkdir(where)
    try:
        workloads = Workloads(where, args)
        rows = [measure(workloads, name, args) for name in ALL if name in args.only.split(",")]
    finally:
        shutil.rmtree(where)
    out = open(args.csv, "a", encoding="utf-8", newline="") if args.csv else sys.stdout
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    if not args.csv or out.tell() == 0:
        writer.writeheader()
    writer.writerows(rows)
    out.flush()


main()
