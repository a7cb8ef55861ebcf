#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nfsrdma-stat: its counts are those of the server and of the wire, exactly; its formats are what they say; its view on a
# terminal; and all of it while the server does not answer. With it what the daemon says by itself of such a server.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../capture_lib.sh
. "$(dirname "$0")/../capture_lib.sh"

here=$lib_dir/integration
export PYTHONDONTWRITEBYTECODE=1

# A known workload: each procedure that a program can bring about, some of them in vain, of sizes that need padding.
work()
{
	python3 - "$1" <<-'EOF'
		import errno, mmap, os, sys
		top = sys.argv[1]
		def fails(error, call, *args):
		    try:
		        call(*args)
		    except OSError as e:
		        assert e.errno == error, e
		    else:
		        raise AssertionError("it must fail")
		os.mkdir(top + "/d")
		for i in range(20):
		    with open(f"{top}/d/{i}", "wb") as f:
		        f.write(bytes([i]) * (4096 * i + i))
		    os.chmod(f"{top}/d/{i}", 0o600)
		fails(errno.ENOENT, os.stat, top + "/nothing")
		fails(errno.ENOENT, os.unlink, top + "/nothing")
		fails(errno.EEXIST, os.mkdir, top + "/d")
		fails(errno.ENOTEMPTY, os.rmdir, top + "/d")
		os.symlink("x" * 333, top + "/link")
		assert len(os.readlink(top + "/link")) == 333
		os.rename(top + "/d/1", top + "/d/one")
		os.link(top + "/d/2", top + "/d/two")
		os.mkfifo(top + "/fifo")
		os.statvfs(top)
		assert len(os.listdir(top + "/d")) == 21
		buf = mmap.mmap(-1, 1 << 20)
		fd = os.open(top + "/big", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
		for n in (4096, 65536, 1 << 20):
		    for i in range(5):
		        assert os.pwritev(fd, [memoryview(buf)[:n]], i * n) == n
		        assert os.preadv(fd, [memoryview(buf)[:n]], i * n) == n
		os.fsync(fd)
		os.truncate(fd, 12345)
		os.close(fd)
		os.unlink(top + "/d/3")
		os.unlink(top + "/fifo")
	EOF
}

# serve OPTIONS…: exportd, which prints its counts at the end. mount OPTIONS: a mount whose counters stay readable as descriptor 9.
serve()
{
	export=$T/export mnt=$T/mnt
	mkdir -p "$export"
	start_exportd "$export" --no-root-squash --counters
}

hold_counters()
{
	exec 9<"$(awk -v dir="$mnt" '$5 == dir { print "/run/nfsrdma/" $3 }' /proc/self/mountinfo)"
}

# Held as "NAME calls errors sent received", of procedures that were called, from both ends and from the wire.
client_counts()
{
	"$STAT" --file /proc/self/fd/9 --json | python3 -c '
import json, sys
for name, p in json.load(sys.stdin)["procs"].items():
    if p["sends"]:
        assert p["replies"] == p["calls"] == p["sends"], (name, p)
        assert p["rtt"]["count"] == p["queue"]["count"] == p["total"]["count"] == p["calls"], (name, p)
        print(name, p["calls"], p["errors"], p["sent_bytes"], p["received_bytes"])'
}

server_counts()
{
	grep -q '^counted\.$' "$exportd_log" || fail "exportd has counted nothing"
	sed -n 's/^counted \([A-Z]*\) calls=\([0-9]*\) errors=\([0-9]*\) received=\([0-9]*\) sent=\([0-9]*\)$/\1 \2 \3 \4 \5/p' "$exportd_log"
}

# "PROCEDURE calls replies errors", told by tshark.
wire_counts()
{
	python3 "$here/fpdu_split.py" "$rdma_port" "$T/capture.pcap" "$T/cut.pcap" >"$T/cut" || fail "the capture has a gap"
	tshark -n -2 -r "$T/cut.pcap" -Y rpc -T fields -E occurrence=f -e rpc.msgtyp -e rpc.program -e rpc.procedure -e nfs.status3 \
		>"$T/fields" 2>"$T/tshark.log" || fail "tshark: $(tail -3 "$T/tshark.log")"
	# Procedures of NFSACL are numbered on behind those of NFS.
	awk -F '\t' '
		{ p = $3 + ($2 == 100227 ? 21 : 0) }
		$1 == 0 { calls[p]++ }
		$1 == 1 { replies[p]++; errors[p] += ($4 != "" && $4 != 0) }
		END { for (p in calls) print p, calls[p], replies[p] + 0, errors[p] + 0 }' "$T/fields" | sort -n
}

counts_agree()
{
	serve
	start_capture "$rdma_port"
	mount_nfs "$export" "$mnt" "$1"
	hold_counters
	work "$mnt"
	umount_nfs "$mnt"
	stop_capture
	stop_exportd "$exportd_pid"
	client_counts >"$T/ours"
	server_counts >"$T/theirs"
	cat "$T/ours"
	[ "$(wc -l <"$T/ours")" -ge 18 ] || fail "the work called only $(wc -l <"$T/ours") procedures"
	diff "$T/theirs" "$T/ours" || fail "the server's counts (<) are not the client's (>)"
	# In the order of their numbers, as the client prints them.
	wire_counts >"$T/wire"
	"$STAT" --file /proc/self/fd/9 --json | python3 -c '
import json, sys
for number, p in enumerate(json.load(sys.stdin)["procs"].values()):
    if p["sends"]:
        print(number, p["sends"], p["replies"], p["errors"])' >"$T/by_number"
	diff "$T/wire" "$T/by_number" || fail "what tshark has seen (<) is not what the client counted (>)"
	"$STAT" --file /proc/self/fd/9 --prometheus >"$T/metrics"
	python3 "$here/prometheus_check.py" "$T/metrics" "nfsrdma_nfs_calls_total=$(awk '{ n += $2 } END { print n }' "$T/theirs")" \
		"nfsrdma_nfs_sent_bytes_total=$(awk '{ n += $4 } END { print n }' "$T/theirs")" \
		"nfsrdma_nfs_round_trip_seconds_count=$(awk '{ n += $2 } END { print n }' "$T/theirs")"
	exec 9<&-
}

limits[counts_are_the_servers_and_the_wires]=150
test_counts_are_the_servers_and_the_wires()
{
	counts_agree ""
}

limits[counts_are_the_servers_and_the_wires_nconnect]=150
test_counts_are_the_servers_and_the_wires_nconnect()
{
	counts_agree nconnect=4
}

test_calls_that_were_sent_again_are_counted()
{
	serve
	mount_nfs "$export" "$mnt" timeo=20
	hold_counters
	freeze "$exportd_pid"
	touch "$mnt/file" &
	local toucher=$!
	sent_again()
	{
		[ "$("$STAT" "$mnt" --counters | awk '$1 == "timeouts" { print $2 }')" -ge 1 ]
	}
	wait_until 30 sent_again || fail "no call has timed out"
	kill -CONT "$exportd_pid"
	wait "$toucher" || fail "touch failed"
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	# What was stopped with a call in its socket answers that one on a connection that is gone, and then again.
	"$STAT" --file /proc/self/fd/9 --json | python3 -c '
import json, sys
procs = json.load(sys.stdin)["procs"].values()
calls, sends, again = (sum(p[what] for p in procs) for what in ("calls", "sends", "retransmits"))
assert again >= 1 and sends == calls + again, (calls, sends, again)'
	exec 9<&-
}

# Its device number is given to the next mount, and the name of its counters with it.
test_a_daemon_that_outlives_its_mount()
{
	serve
	mount_nfs "$export" "$mnt" commit=300
	local first=$exportd_pid daemon device
	daemon=$(daemon_pid "$mnt")
	device=$(stat -c %d "$mnt")
	python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, bytes(100000))
os.kill(int(sys.argv[2]), 19) # SIGSTOP
os.kill(os.getpid(), 9)' "$mnt/file" "$first" || true
	umount -l "$mnt" # without it, umount(8) asks the server first
	! process_ended "$daemon" || fail "the daemon has not waited for the server"
	mkdir "$T/export2" "$T/mnt2"
	rdma_port='' tcp_port=''
	start_exportd "$T/export2" --no-root-squash
	mount_nfs "$T/export2" "$T/mnt2"
	[ "$(stat -c %d "$T/mnt2")" = "$device" ] || skip "somebody else's mount has got the device number"
	kill -CONT "$first"
	wait_until 30 process_ended "$daemon" || fail "the daemon does not end"
	"$STAT" "$T/mnt2" >/dev/null || fail "the counters of another mount are gone"
	umount_nfs "$T/mnt2"
	assert_eq "$(wc -c <"$export/file")" 100000 "what was saved after the unmount"
}

# Bytes that would break a format that does not look out, in a file that is otherwise a mount's; and a damaged one.
limits[formats_and_made_up_files]=150
test_formats_and_made_up_files()
{
	serve
	mount_nfs "$export" "$mnt" nconnect=2
	work "$mnt"
	hold_counters
	cat <&9 >"$T/counters"
	"$STAT" "$mnt" >"$T/text"
	grep -q "^READ " "$T/text" || fail "the table has no READ"
	"$STAT" "$mnt" --prometheus >"$T/metrics"
	python3 "$here/prometheus_check.py" "$T/metrics"
	python3 - "$T/counters" "$STAT" "$here/prometheus_check.py" <<-'EOF'
		import json, random, subprocess, sys
		path, stat, checker = sys.argv[1:]
		with open(path, "rb") as f:
		    good = f.read()
		def run(data, *args):
		    with open(path + ".odd", "wb") as f:
		        f.write(data)
		    return subprocess.run([stat, "--file", path + ".odd", *args], capture_output=True, timeout=20)
		name = b'/m "q\\\n{x="1"} \x80\xff \xe2\x82\xac \x1b[2J'
		at = 64 + 256
		odd = good[:at] + name + bytes(1024 - len(name)) + good[at + 1024 :]
		shown = '/m "q\\?{x="1"} ?? € ?[2J'
		r = run(odd, "--json")
		assert r.returncode == 0 and json.loads(r.stdout.decode())["mountpoint"] == shown, r
		r = run(odd, "--prometheus")
		with open(path + ".metrics", "wb") as f:
		    f.write(r.stdout)
		subprocess.run([sys.executable, checker, path + ".metrics"], check=True)
		assert shown in run(odd).stdout.decode()
		rng = random.Random(7)
		refused = 0
		for i in range(60):
		    bad = bytearray(good)
		    for _ in range(rng.choice((1, 20, 3000))):
		        bad[rng.randrange(len(bad) if i % 2 else 1500)] = rng.randrange(256)
		    bad = bytes(bad[: rng.choice((len(bad), rng.randrange(len(bad))))])
		    r = run(bad, rng.choice(("--json", "--prometheus", "--counters")))
		    assert r.returncode in (0, 1), r
		    refused += r.returncode
		    assert r.returncode == 0 or r.stderr.startswith(b"nfsrdma-stat: "), r
		assert 10 < refused < 60, refused
		for bad, why in ((b"", b"not a file of counters"), (b"x" * 5000, b"not a file of counters"), (good[:-1], b"cut short"),
		                 (good[:8] + b"\x02" + good[9:], b"another version"), (good[:24] + b"\0" * 8 + good[32:], b"another version")):
		    r = run(bad)
		    assert r.returncode == 1 and why in r.stderr, r
	EOF
	assert_fails "$STAT" --file "$T" 2>"$T/said"
	mkfifo "$T/fifo"
	assert_fails timeout 10 "$STAT" --file "$T/fifo" 2>"$T/said"
	grep -q 'not an ordinary file' "$T/said" || fail "of a FIFO it says: $(cat "$T/said")"
	assert_fails "$STAT" "$T" 2>"$T/said"
	grep -q 'nothing is mounted there' "$T/said" || fail "of a directory it says: $(cat "$T/said")"
	assert_fails "$STAT" /proc 2>"$T/said"
	grep -q 'no mount of nfsrdma' "$T/said" || fail "of another mount it says: $(cat "$T/said")"
	exec 9<&-
}

# Several mounts in one file, as the textfile collector wants it.
test_textfile_collector()
{
	serve
	mount_nfs "$export" "$mnt" nconnect=2
	mount_nfs "$export" "$T/two"
	ls "$mnt" "$T/two" >/dev/null
	mkdir "$T/metrics"
	NFSRDMA_STAT=$STAT "$source_dir/contrib/prometheus/nfsrdma-textfile.sh" "$T/metrics"
	assert_eq "$(ls -A "$T/metrics")" nfsrdma.prom "what is left in the directory"
	python3 "$here/prometheus_check.py" "$T/metrics/nfsrdma.prom"
	for dir in "$mnt" "$T/two"; do
		grep -q "^nfsrdma_rpcrdma_up{mountpoint=\"$dir\",lane=\"0\"} 1$" "$T/metrics/nfsrdma.prom" || fail "$dir is not in it"
	done
}

# A daemon that was killed leaves its file: it says nothing of the present.
test_the_counters_of_a_dead_daemon()
{
	serve
	mount_nfs "$export" "$mnt"
	local pid file
	pid=$(daemon_pid "$mnt")
	file=$(awk -v dir="$mnt" '$5 == dir { print "/run/nfsrdma/" $3 }' /proc/self/mountinfo)
	kill -KILL "$pid"
	wait_until 20 process_ended "$pid"
	assert_fails "$STAT" "$mnt" 2>"$T/said"
	grep -q "process $pid, has ended: umount -l $mnt" "$T/said" || fail "it says: $(cat "$T/said")"
	"$STAT" --file "$file" >"$T/text"
	umount -l "$mnt"
	rm "$file"
}

# keep_busy: reads and writes past the page cache until the shell has gone.
keep_busy()
{
	head -c 1M /dev/zero >"$export/busy"
	python3 - "$mnt/busy" "$$" <<-'EOF' &
		import mmap, os, sys, time
		buf = mmap.mmap(-1, 65536)
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
		turn = 0
		while os.path.exists(f"/proc/{sys.argv[2]}"):
		    os.preadv(fd, [buf], turn % 16 * 65536)
		    os.pwritev(fd, [buf], turn % 16 * 65536)
		    turn += 1
		    time.sleep(0.002)
	EOF
	busy_pid=$!
}

idle()
{
	kill "$busy_pid"
	wait "$busy_pid" || true
}

limits[watch]=150
test_watch()
{
	serve
	mount_nfs "$export" "$mnt" nconnect=2
	keep_busy
	local case
	for case in updates_in_place any_size without_utf8 signals; do
		echo "-- $case"
		timeout $((50 * ${TIME_FACTOR:-1})) python3 "$here/watch.py" $case "$STAT" "$mnt" || fail "$case"
	done
	assert_eq "$("$STAT" "$mnt" --watch 2>&1 </dev/null | cat)" \
		"nfsrdma-stat: --watch needs a terminal; --json and --prometheus do not" "--watch without a terminal"
	idle
	timeout $((50 * ${TIME_FACTOR:-1})) python3 "$here/watch.py" unmounted "$STAT" "$mnt" "umount $mnt" || fail "at the unmount"
}

# mount_and_stay OPTIONS: a mount whose daemon stays in the foreground, so that what it says comes to $T/said.
mount_and_stay()
{
	mkdir -p "$mnt"
	"$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" -f -o "$(mount_options "$1")" >"$T/said" 2>&1 </dev/null &
	wait_until 30 is_mounted "$mnt" || fail "not mounted: $(cat "$T/said")"
}

says()
{
	grep -q "$1" "$T/said"
}

# The server is stopped: the counters are there, the call that hangs is named, by the reader and in the log.
limits[a_server_that_does_not_answer]=150
test_a_server_that_does_not_answer()
{
	serve
	mount_and_stay timeo=100
	pattern_file "$export/file" 100000 hanging
	freeze "$exportd_pid"
	cat "$mnt/file" >"$T/out" &
	local reader=$!
	names_the_call()
	{
		timeout 10 "$STAT" "$mnt" --json | python3 -c '
import json, sys
lane = json.load(sys.stdin)["lanes"][0]
call = lane["oldest_call"]
sys.exit(not (call and call["age_ns"] > 10**9 and call["procedure"] and lane["rpcrdma"]["outstanding"] >= 1))'
	}
	wait_until 30 names_the_call || fail "the call that hangs is not named: $(timeout 10 "$STAT" "$mnt")"
	timeout 10 "$STAT" "$mnt" | grep -q 'waits for an answer: [A-Z]*, XID 0x' || fail "the table does not name it"
	timeout $((50 * ${TIME_FACTOR:-1})) python3 "$here/watch.py" hanging "$STAT" "$mnt" || fail "the view does not name it"
	wait_until 30 says 'lane 0: [A-Z]* (XID 0x[0-9a-f]*) without an answer for [0-9]* s: .*nfsrdma-' ||
		fail "the watchdog is silent: $(cat "$T/said")"
	kill -CONT "$exportd_pid"
	wait "$reader" || fail "the reader failed"
	cmp "$T/out" "$export/file"
	wait_until 30 says 'the call that was waited for is over, after' || fail "its end is not told: $(cat "$T/said")"
	no_call_waits()
	{
		! names_the_call && ! timeout 10 "$STAT" "$mnt" | grep -q 'waits for an answer'
	}
	wait_until 30 no_call_waits || fail "a call is still named"
}

test_debugging_messages_by_area()
{
	serve
	mount_and_stay debug=nfs:transport
	echo x >"$mnt/file"
	wait_until 20 says 'XID 0x[0-9a-f]*: WRITE after [0-9.]* ms: OK' || fail "no word of the WRITE: $(cat "$T/said")"
	says 'lane 0: connected: inline 4096 bytes out' || fail "no word of the connection"
	! says ': request [0-9]' || fail "requests of the kernel, which nobody wanted to see"
	umount_nfs "$mnt"
	mount_and_stay debug=fuse
	ls "$mnt" >/dev/null
	wait_until 20 says 'request [0-9]*: OPENDIR of node 1' || fail "no word of the request: $(cat "$T/said")"
	! says 'XID' || fail "RPCs, which nobody wanted to see"
}

# Without them there would be nothing for contrib/trace to look at.
test_the_probes_are_there()
{
	[ -e /usr/include/sys/sdt.h ] || [ -n "$(find /usr/include/*/sys/sdt.h 2>/dev/null)" ] || skip "built without <sys/sdt.h>"
	local probe
	readelf -n "$NFSRDMA" >"$T/notes"
	sed -n 's/^.*usdt:[^:]*:nfsrdma:\([a-z_]*\).*/\1/p' "$source_dir"/contrib/trace/*.bt | sort -u >"$T/used"
	[ "$(wc -l <"$T/used")" -ge 4 ] || fail "contrib/trace uses hardly any probe"
	while read -r probe; do
		grep -q "Name: $probe\$" "$T/notes" || fail "contrib/trace uses the probe $probe, which is not in the program"
	done <"$T/used"
}

tests_main "$@"
