#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A server that dies and comes back, memory that is hardly enough, callers that are killed while they wait.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

restart_exportd()
{
	start_exportd "$export" --no-root-squash
}

at_least()
{
	local n
	n=$(cat "$2" 2>/dev/null) && [ "${n:-0}" -ge "$1" ]
}

has_ended_or_is_at()
{
	at_least "$1" "$2" || process_ended "$3"
}

limits[server_killed_while_writing]=120
test_server_killed_while_writing()
{
	serve_and_mount
	python3 - "$mnt/file" "$T/progress" <<-'EOF' &
		import os, random, sys
		rng = random.Random(5)
		with open(sys.argv[1], "wb", buffering=0) as f:
		    for i in range(96):
		        data = rng.randbytes(700001)
		        assert f.write(data) == len(data)
		        if i % 3 == 0:
		            os.fsync(f.fileno())
		        with open(sys.argv[2] + ".new", "w") as p:
		            p.write(str(i))
		        os.rename(sys.argv[2] + ".new", sys.argv[2])
		    os.fsync(f.fileno())
	EOF
	local writer=$! at
	for at in 10 35 60 61; do
		wait_until 60 has_ended_or_is_at "$at" "$T/progress" "$writer" || fail "the writer stands still"
		kill_exportd
		restart_exportd
	done
	wait "$writer" || fail "the writer got an error"
	python3 - "$export/file" <<-'EOF'
		import random, sys
		rng = random.Random(5)
		with open(sys.argv[1], "rb") as f:
		    for i in range(96):
		        assert f.read(700001) == rng.randbytes(700001), i
		    assert f.read() == b""
	EOF
}

# A server that restarts may have forgotten what it had not yet committed: a changed verifier says so, and then the client
# sends it again. Here it has forgotten: the file's bytes are wiped while it is down.
test_changed_verifier_sends_again()
{
	serve_and_mount commit=300
	pattern_file "$T/in" 3000000 verifier
	python3 - "$mnt/file" "$T/in" "$T/written" "$T/go" "$T/synced" <<-'EOF' &
		import os, sys, time
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
		data = open(sys.argv[2], "rb").read()
		assert os.write(fd, data) == len(data)
		open(sys.argv[3], "w").close()
		while not os.path.exists(sys.argv[4]):
		    time.sleep(0.005)
		os.fsync(fd)
		open(sys.argv[5], "w").close()
	EOF
	local writer=$!
	wait_until 20 test -e "$T/written"
	# Without being asked, but not committed.
	wait_until 20 cmp -s "$T/in" "$export/file" || fail "the data do not come to the server by themselves"
	kill_exportd
	dd if=/dev/zero of="$export/file" bs=3000000 count=1 conv=notrunc status=none
	restart_exportd
	touch "$T/go"
	wait "$writer" || fail "fsync failed"
	cmp "$T/in" "$export/file" || fail "what the server had forgotten was not sent again"
}

# What a server that restarted has lost for good is told to each who has the file open, and nobody else takes that away.
test_lost_data_is_told_to_each_who_has_the_file_open()
{
	serve_and_mount
	python3 - "$mnt/file" "$T/written" "$T/go" <<-'EOF' &
		import os, sys, time
		writer = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		other = os.open(sys.argv[1], os.O_RDWR)
		os.write(writer, b"data")
		open(sys.argv[2], "w").close()
		while not os.path.exists(sys.argv[3]):
		    time.sleep(0.005)
		def fails(call, *args):
		    try:
		        call(*args)
		        return False
		    except OSError:
		        return True
		fails(os.fchmod, other, 0o600)
		assert fails(os.fsync, other), "fsync of the other open file"
		assert fails(os.fsync, writer), "fsync of the writer"
		assert not fails(os.fsync, writer), "told twice"
	EOF
	local writer=$!
	wait_until 20 test -e "$T/written"
	kill_exportd
	rm "$export/file"
	restart_exportd
	touch "$T/go"
	wait "$writer" || fail "somebody was not told"
}

# Sets least_arena: the number that the client says would do.
find_least_arena()
{
	local status=0
	mkdir -p "$T/mnt"
	timeout 40 "$NFSRDMA" "$SERVER_ADDRESS:$export" "$T/mnt" \
		-o "$(mount_options "$1,arena=4096")" \
		>"$T/out" 2>"$T/err" </dev/null || status=$?
	cat "$T/err"
	[ "$status" -ne 0 ] || fail "an arena of 4096 bytes was taken"
	[ "$status" -lt 124 ] || fail "status $status"
	assert_eq "$(wc -l <"$T/err")" 1 "lines"
	! is_mounted "$T/mnt" || fail "mounted all the same"
	least_arena=$(grep -oE 'arena=[0-9]+[KMG]?' "$T/err" | tail -1)
	least_arena=${least_arena#arena=}
	[ -n "$least_arena" ] || least_arena=$(grep -oE '\b[0-9]+[KMG]?\b' "$T/err" | tail -1)
	[ -n "$least_arena" ] || fail "no number that would do"
}

test_arena_too_small_is_refused_with_the_number()
{
	export=$T/export
	mkdir "$export"
	start_exportd "$export" --no-root-squash
	local sizes bytes
	for sizes in rsize=1048576,wsize=1048576 rsize=65536,wsize=65536 rsize=4096,wsize=4096; do
		find_least_arena $sizes
		echo "$sizes: $least_arena"
		mount_nfs "$export" "$T/mnt" "$sizes,arena=$least_arena"
		echo works >"$T/mnt/file"
		assert_eq "$(cat "$T/mnt/file")" works
		umount_nfs "$T/mnt"
		bytes=$(numfmt --from=iec "$least_arena")
		assert_fails timeout 40 "$NFSRDMA" "$SERVER_ADDRESS:$export" "$T/mnt" \
			-o "$(mount_options "$sizes,arena=$((bytes - 4096))")" </dev/null
	done
}

# two_slots OPTIONS: 64 writers and readers on the smallest arena there is, and a server that dies meanwhile.
two_slots()
{
	export=$T/export
	mkdir "$export"
	start_exportd "$export" --no-root-squash
	find_least_arena rsize=1048576,wsize=1048576
	mount_nfs "$export" "$T/mnt" "rsize=1048576,wsize=1048576,arena=$least_arena$1"
	python3 - "$T/mnt" "$T/progress" <<-'EOF' &
		import mmap, os, random, sys
		from multiprocessing import Process, Value
		mnt, progress = sys.argv[1:]
		done = Value("i", 0)
		def step():
		    with done.get_lock():
		        done.value += 1
		        with open(progress + ".new", "w") as p:
		            p.write(str(done.value))
		        os.rename(progress + ".new", progress)
		def work(who):
		    rng = random.Random(who)
		    path = "%s/file%d" % (mnt, who)
		    direct = os.O_DIRECT if who % 4 == 3 else 0
		    fd = os.open(path, os.O_RDWR | os.O_CREAT | direct, 0o644)
		    buf = memoryview(mmap.mmap(-1, 1 << 20))
		    model = bytearray(3 << 20)
		    for turn in range(3):
		        for mib in range(3):
		            buf[:] = model[mib << 20:(mib + 1) << 20] = rng.randbytes(1 << 20)
		            assert os.pwritev(fd, [buf], mib << 20) == 1 << 20
		            step()
		        os.fsync(fd)
		        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		        for mib in range(3):
		            assert os.preadv(fd, [buf], mib << 20) == 1 << 20
		            assert buf == model[mib << 20:(mib + 1) << 20], (who, turn, mib)
		            step()
		    os.close(fd)
		ps = [Process(target=work, args=(w,)) for w in range(64)]
		for p in ps: p.start()
		for p in ps: p.join()
		assert all(p.exitcode == 0 for p in ps), "somebody failed"
	EOF
	local workers=$! at
	# 64 * 3 * 6 = 1152 steps in all.
	for at in 100 500 800; do
		wait_until 120 has_ended_or_is_at "$at" "$T/progress" "$workers" || fail "nothing moves at step $(cat "$T/progress")"
		process_ended "$workers" && break
		kill_exportd
		restart_exportd
	done
	wait_until 300 process_ended "$workers" || fail "nothing moves at step $(cat "$T/progress") of 1152"
	wait "$workers" || fail "a worker failed at step $(cat "$T/progress")"
	python3 - "$export" <<-'EOF'
		import random, sys
		for who in range(64):
		    rng = random.Random(who)
		    for turn in range(3):
		        data = [rng.randbytes(1 << 20) for _ in range(3)]
		    assert open("%s/file%d" % (sys.argv[1], who), "rb").read() == b"".join(data), who
	EOF
}

limits[two_slot_arena]=480
test_two_slot_arena()
{
	two_slots ""
}

limits[two_slot_arena_nconnect]=480
test_two_slot_arena_nconnect()
{
	two_slots ,nconnect=3
}

# Each way in which a caller can be waiting for a server that does not answer; SIGKILL must end it, on a hard mount too.
limits[callers_of_a_dead_server_can_be_killed]=120
test_callers_of_a_dead_server_can_be_killed()
{
	serve_and_mount
	pattern_file "$export/file" 4000000 dead
	pattern_file "$export/other" 4000000 dead
	cat "$mnt/file" >/dev/null
	drop_caches "$mnt"
	cat >"$T/caller.py" <<-'EOF'
		import mmap, os, signal, sys, time
		how, mnt, ready, go = sys.argv[1:]
		# On older kernels (6.1, 6.12) a close of who may write waits for the writes of others to the file.
		fd = os.open(mnt + "/file", os.O_RDWR if how == "write" else os.O_RDONLY)
		direct = os.open(mnt + "/" + how, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
		names = os.open(mnt + "/dir", os.O_RDONLY | os.O_DIRECTORY)
		buf = mmap.mmap(-1, 65536)
		os.pwritev(direct, [buf], 0)
		signal.signal(signal.SIGALRM, lambda *_: None)
		open(ready, "w").close()
		while not os.path.exists(go):
		    time.sleep(0.005)
		if how == "alarm":
		    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
		if how == "read":
		    os.pread(fd, 100000, 2000000)
		elif how == "alarm":
		    os.pread(fd, 100000, 3000000)
		elif how == "write":
		    os.pwrite(fd, b"dirty", 10)
		    os.fsync(fd)
		elif how == "direct-read":
		    os.preadv(direct, [buf], 0)
		elif how == "direct-write":
		    os.pwritev(direct, [buf], 0)
		elif how == "create":
		    os.open(mnt + "/dir/new", os.O_CREAT)
		elif how == "list":
		    os.listdir(names)
	EOF
	mkdir "$export/dir"
	local how pid pids='' hows=(read alarm write direct-read direct-write list)
	for how in "${hows[@]}"; do
		python3 "$T/caller.py" "$how" "$mnt" "$T/ready.$how" "$T/go" &
		pids="$pids $!"
	done
	for how in "${hows[@]}"; do
		wait_until 20 test -e "$T/ready.$how" || fail "$how is not ready"
	done
	drop_caches "$mnt"
	kill_exportd
	touch "$T/go"
	# All must be seen to wait first.
	for pid in $pids; do
		wait_until 10 waits_in_fuse "$pid" || fail "$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -d' ' -f3) does not wait for the server: $(cat "/proc/$pid/stack" 2>&1)"
	done
	for pid in $pids; do
		how=$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -d' ' -f3)
		kill -KILL "$pid"
		wait_until 10 process_ended "$pid" || fail "$how goes on after SIGKILL: $(cat "/proc/$pid/stack")"
	done
	restart_exportd
	wait_until 30 timeout 10 cmp "$export/other" "$mnt/other" || fail "the mount does not work again"
	timeout 20 ls "$mnt" >/dev/null
}

# A thread may ask for asynchronous I/O and end before it is done; another one of its process waits for it.
test_io_that_outlives_its_thread()
{
	serve_and_mount
	pattern_file "$export/file" 65536 aio
	python3 - "$mnt/file" "$export/file" "$T/ready" "$T/go" <<-'EOF' &
		import ctypes, mmap, os, platform, struct, sys, threading, time
		setup, submit, getevents = (206, 209, 208) if platform.machine() == "x86_64" else (0, 2, 4)
		libc = ctypes.CDLL(None, use_errno=True)
		def call(*args):
		    got = libc.syscall(*args)
		    assert got >= 0, os.strerror(ctypes.get_errno())
		    return got
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		buf = mmap.mmap(-1, 65536)
		addr = ctypes.addressof(ctypes.c_char.from_buffer(buf))
		context = ctypes.c_ulong(0)
		call(setup, 1, ctypes.byref(context))
		open(sys.argv[3], "w").close()
		while not os.path.exists(sys.argv[4]):
		    time.sleep(0.005)
		# struct iocb: data, key, rw_flags, opcode PREAD, priority, descriptor, buffer, bytes, offset, reserved, flags, resfd
		iocb = ctypes.create_string_buffer(struct.pack("QIIHHIQQqQII", 0, 0, 0, 0, 0, fd, addr, 65536, 0, 0, 0, 0))
		list_of_one = (ctypes.c_void_p * 1)(ctypes.addressof(iocb))
		thread = threading.Thread(target=call, args=(submit, context, ctypes.c_long(1), list_of_one))
		thread.start()
		thread.join()
		killed = os.fork()
		if killed == 0:
		    os.preadv(fd, [mmap.mmap(-1, 4096)], 0)
		    os._exit(0)
		with open(sys.argv[3] + ".new", "w") as f:
		    f.write(str(killed))
		os.rename(sys.argv[3] + ".new", sys.argv[3] + ".sent")
		event = ctypes.create_string_buffer(32)
		assert call(getevents, context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1
		result = struct.unpack("QQqq", event.raw)[2]
		assert result == 65536, f"result {result}"
		assert buf[:] == open(sys.argv[2], "rb").read()
	EOF
	local reader=$!
	wait_until 20 test -e "$T/ready"
	kill_exportd
	touch "$T/go"
	wait_until 20 test -e "$T/ready.sent"
	# Killed while it waits, this one ends when the client next looks at its callers; it has then looked at the other, too.
	local killed
	killed=$(cat "$T/ready.sent")
	wait_until 20 waits_in_fuse "$killed" || fail "the other reader does not wait for the server"
	kill -KILL "$killed"
	wait_until 20 process_ended "$killed" || fail "the other reader goes on after SIGKILL"
	restart_exportd
	wait "$reader" || fail "the read failed"
}

test_soft_mount_gives_an_error()
{
	serve_and_mount soft,timeo=10,retrans=1
	echo x >"$mnt/file"
	drop_caches "$mnt"
	kill_exportd
	local status=0
	timeout 50 cat "$mnt/file" >/dev/null 2>"$T/err" || status=$?
	cat "$T/err"
	assert_eq "$status" 1 "status of cat"
	grep -qiE 'input/output|timed out' "$T/err" || fail "another error: $(cat "$T/err")"
	restart_exportd
	works()
	{
		[ "$(timeout 5 cat "$mnt/file" 2>/dev/null)" = x ]
	}
	wait_until 30 works || fail "the mount does not work again"
}

# What a soft mount has taken and cannot save is lost, but not in silence.
test_soft_mount_tells_what_is_lost()
{
	serve_and_mount soft,timeo=5,retrans=1
	python3 - "$mnt/file" "$T/ready" "$T/go" <<-'EOF' &
		import errno, os, sys, time
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
		open(sys.argv[2], "w").close()
		while not os.path.exists(sys.argv[3]):
		    time.sleep(0.005)
		assert os.write(fd, b"lost") == 4
		try:
		    os.fsync(fd)
		except OSError as e:
		    assert e.errno == errno.EIO, e
		else:
		    raise AssertionError("fsync has found a server")
		os.fsync(fd)
		os.close(fd)
	EOF
	local writer=$!
	wait_until 20 test -e "$T/ready"
	kill_exportd
	touch "$T/go"
	wait_until 40 process_ended "$writer" || fail "fsync does not return"
	wait "$writer" || fail "the writer saw something else"
	restart_exportd
}

test_server_away_for_a_while()
{
	serve_and_mount
	pattern_file "$export/file" 5000000 away
	kill_exportd
	timeout 60 cmp "$export/file" "$mnt/file" &
	local reader=$!
	mkdir "$T/other"
	wait_until 10 daemon_pid "$mnt" >/dev/null
	! process_ended "$reader" || fail "the reader got an answer from nobody"
	restart_exportd
	wait "$reader" || fail "the reader got an error or other data"
}

test_unmount_while_the_server_is_dead()
{
	serve_and_mount
	echo x >"$mnt/file"
	sync -f "$mnt/file"
	kill_exportd
	local pid
	pid=$(daemon_pid "$mnt")
	# Lazily: umount(8) else looks at the mount first, and that waits for the server.
	timeout 20 umount -l "$mnt"
	wait_until 40 process_ended "$pid" || fail "the daemon goes on, and it has nothing to save"
}

# What waits for a dead server when the mount is taken away by force; the daemon ends soon, for there is nothing to save.
taken_away()
{
	local pid reader status=0
	serve_and_mount
	pattern_file "$export/file" 3000000 away
	exec 7<"$mnt/file"
	kill_exportd
	cat <&7 >/dev/null 2>&1 &
	reader=$!
	exec 7<&-
	wait_until 20 waits_in_fuse "$reader" || fail "the reader does not wait"
	pid=$(daemon_pid "$mnt")
	timeout 20 "$@" "$mnt" || status=$?
	[ "$status" -ne 124 ] || fail "$* hangs"
	is_not_mounted "$mnt" || timeout 20 umount -l "$mnt"
	wait_until 20 process_ended "$reader" || fail "the reader goes on after $*"
	wait_until 20 process_ended "$pid" || fail "the daemon goes on after $*"
}

test_umount_by_force_while_the_server_is_dead()
{
	taken_away umount -f
}

# fusermount3 does not look at the file system before it unmounts.
test_fusermount_while_the_server_is_dead()
{
	local pid
	serve_and_mount
	echo x >"$mnt/file"
	kill_exportd
	pid=$(daemon_pid "$mnt")
	timeout 20 fusermount3 -u "$mnt" || fail "fusermount3 -u fails or hangs"
	is_not_mounted "$mnt"
	wait_until 20 process_ended "$pid" || fail "the daemon goes on, and it has nothing to save"
}

# Killed with data that the server never got: the program goes at once, and its data goes on behind it.
test_exit_with_dirty_data()
{
	local pid
	serve_and_mount
	python3 - "$mnt/file" "$T/ready" "$T/go" "$T/written" <<-'EOF' &
		import os, sys, time
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
		open(sys.argv[2], "w").close()
		while not os.path.exists(sys.argv[3]):
		    time.sleep(0.005)
		os.write(fd, b"left behind")
		open(sys.argv[4], "w").close()
		time.sleep(1000)
	EOF
	pid=$!
	wait_until 20 test -e "$T/ready"
	kill_exportd
	touch "$T/go"
	wait_until 20 test -e "$T/written" || fail "write(2) waits for the server"
	kill -KILL "$pid"
	wait_until 20 process_ended "$pid" || fail "it goes on after SIGKILL: $(cat "/proc/$pid/stack")"
	restart_exportd
	saved()
	{
		[ "$(cat "$export/file")" = "left behind" ]
	}
	wait_until 30 saved || fail "its data is lost"
}

# The connection stays, but nobody answers.
test_server_that_stops_answering()
{
	serve_and_mount timeo=10
	pattern_file "$export/file" 2000000 stopped
	echo x >"$mnt/other"
	freeze "$exportd_pid"
	cmp "$export/file" "$mnt/file" &
	local reader=$!
	timed_out()
	{
		[ "$("$STAT" "$mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["lanes"][0]["rpcrdma"]["timeouts"])')" -ge 1 ]
	}
	wait_until 30 timed_out || fail "the client goes on waiting on the same connection"
	! process_ended "$reader" || fail "the reader got an answer from nobody"
	kill -CONT "$exportd_pid"
	wait "$reader" || fail "the reader got an error or other data"
	assert_eq "$(cat "$mnt/other")" x
}

# ---- a network of the test's own ----

# The test's own machine has 10.99.0.1 on a bridge; machine NAME makes another one beside it, in a network namespace.
in_own_network()
{
	[ "$(id -u)" = 0 ] || skip "not root"
	if [ -z "${OWN_NETWORK:-}" ]; then
		OWN_NETWORK=1 exec unshare --net bash "$lib_script" --one "$test_name"
	fi
	ip link set lo up
	ip link add name br0 type bridge 2>/dev/null || skip "the kernel has no bridge"
	ip addr add 10.99.0.1/24 dev br0
	ip link set br0 up
	SERVER_ADDRESS=10.99.0.2
	real_exportd=$EXPORTD
}

declare -A machine
machine()
{
	unshare --net sleep infinity &
	machine[$1]=$!
	has_own_network()
	{
		[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
	}
	wait_until 10 has_own_network "${machine[$1]}"
	ip link add name "p$1" type veth peer name eth0 netns "${machine[$1]}" 2>/dev/null || skip "the kernel has no veth"
	ip link set "p$1" master br0 up
	on "$1" ip link set lo up
	on "$1" sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_notify'
	on "$1" ip link set eth0 up
}

on()
{
	nsenter -t "${machine[$1]}" -n "${@:2}"
}

# serve_on NAME: exportd runs there, on the address that clients know.
serve_on()
{
	on "$1" ip addr add 10.99.0.2/24 dev eth0
	# Whoever takes an address over tells all others.
	on "$1" ip link set eth0 down
	on "$1" ip link set eth0 up
	printf '#!/bin/sh\nexec nsenter -t %s -n "%s" "$@"\n' "${machine[$1]}" "$real_exportd" >"$T/exportd.$1"
	chmod +x "$T/exportd.$1"
	EXPORTD=$T/exportd.$1
	start_exportd "$export" --no-root-squash --listen 10.99.0.2 --state "$T/state"
}

machines_end()
{
	kill -KILL "${machine[@]}"
	wait "${machine[@]}" 2>/dev/null || true
}

# From one moment on no packet comes through, without anybody being told.
limits[network_that_drops_everything]=120
test_network_that_drops_everything()
{
	local reader writer
	in_own_network
	export=$T/export mnt=$T/mnt
	mkdir "$export" "$T/state"
	machine a
	serve_on a
	mount_nfs "$export" "$mnt" timeo=20
	pattern_file "$export/file" 3000000 dropped
	pattern_file "$T/in" 3000000 dropped-too
	ip link set pa nomaster
	cmp "$export/file" "$mnt/file" &
	reader=$!
	cp "$T/in" "$mnt/new" &
	writer=$!
	lost()
	{
		[ "$("$STAT" "$mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["lanes"][0]["rpcrdma"]["disconnects"])')" -ge 1 ]
	}
	wait_until 60 lost || fail "the connection is not given up"
	wait_until 20 waits_in_fuse "$reader" || fail "the reader got an answer from nobody"
	ip link set pa master br0
	wait "$reader" || fail "the reader got an error or other data"
	wait "$writer" || fail "the writer got an error"
	cmp "$T/in" "$export/new"
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	machines_end
}

# The address comes up on another machine, which serves the same files; the first is gone without a word.
limits[address_that_moves]=120
test_address_that_moves()
{
	local writer
	in_own_network
	export=$T/export mnt=$T/mnt
	mkdir "$export" "$T/state"
	machine a
	machine b
	serve_on a
	mount_nfs "$export" "$mnt" timeo=20
	python3 - "$mnt/file" "$T/progress" <<-'EOF' &
		import os, random, sys
		rng = random.Random(7)
		with open(sys.argv[1], "wb", buffering=0) as f:
		    for i in range(60):
		        f.write(rng.randbytes(100001))
		        os.fsync(f.fileno())
		        with open(sys.argv[2] + ".new", "w") as p:
		            p.write(str(i))
		        os.rename(sys.argv[2] + ".new", sys.argv[2])
	EOF
	writer=$!
	wait_until 30 has_ended_or_is_at 10 "$T/progress" "$writer" || fail "the writer stands still"
	on a ip addr del 10.99.0.2/24 dev eth0
	kill_exportd
	serve_on b
	wait "$writer" || fail "the writer got an error"
	python3 - "$export/file" <<-'EOF'
		import random, sys
		rng = random.Random(7)
		assert open(sys.argv[1], "rb").read() == b"".join(rng.randbytes(100001) for _ in range(60))
	EOF
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	machines_end
}

# What root's daemon may still do after its start, and that its memory goes last.
test_rights_of_the_daemon()
{
	local pid want may
	serve_and_mount
	pid=$(daemon_pid "$mnt")
	# CAP_DAC_READ_SEARCH 2, NET_BIND_SERVICE 10, IPC_LOCK 14, SYS_PTRACE 19, SYS_ADMIN 21; fewer where there are fewer.
	may=$((16#$(awk '/^CapEff:/ {print $2}' /proc/self/status)))
	want=$(printf '%016x' $((may & (1 << 2 | 1 << 10 | 1 << 14 | 1 << 19 | 1 << 21))))
	assert_eq "$(awk '/^CapPrm:/ {print $2}' "/proc/$pid/status")" "$want" "permitted capabilities"
	assert_eq "$(awk '/^CapEff:/ {print $2}' "/proc/$pid/status")" "$want" "effective capabilities"
	assert_eq "$(awk '/^CapInh:/ {print $2}' "/proc/$pid/status")" 0000000000000000 "inheritable capabilities"
	assert_eq "$(awk '/^NoNewPrivs:/ {print $2}' "/proc/$pid/status")" 1 NoNewPrivs
	local task
	for task in "/proc/$pid/task"/*/status; do
		assert_eq "$(awk '/^CapEff:/ {print $2}' "$task")" "$want" "capabilities of a thread"
	done
	if [ $((may >> 24 & 1)) = 1 ]; then # CAP_SYS_RESOURCE
		assert_eq "$(cat "/proc/$pid/oom_score_adj")" -900 oom_score_adj
		assert_eq "$(awk '/^Max locked memory/ {print $4}' "/proc/$pid/limits")" unlimited "limit of locked memory"
	fi
	echo x >"$mnt/file"
	chown 64531 "$mnt/file"
	assert_eq "$(cat "$mnt/file")" x
}

test_terminated_daemon_saves_and_unmounts()
{
	serve_and_mount
	pattern_file "$T/in" 10000000 term
	cp "$T/in" "$mnt/file"
	local pid
	pid=$(daemon_pid "$mnt")
	kill -TERM "$pid"
	wait_until 30 process_ended "$pid" || fail "the daemon does not end on SIGTERM"
	wait_until 5 is_not_mounted "$mnt" || fail "the mount is still there"
	cmp "$T/in" "$export/file"
}

# The kernel is told that files have changed, and waits for pages that are being read, while the daemon is to end.
limits[terminated_daemon_ends_in_the_middle_of_things]=180
test_terminated_daemon_ends_in_the_middle_of_things()
{
	local pid users round
	export=$T/export mnt=$T/mnt
	mkdir "$export"
	start_exportd "$export" --no-root-squash
	for round in $(seq 4); do
		rm -f "$T/progress" "$T/over"
		mount_nfs "$export" "$mnt" actimeo=0,nconnect=2
		python3 - "$mnt" "$export" "$T/progress" "$T/over" <<-'EOF' &
			import multiprocessing, os, sys, time
			mnt, export, progress, over = sys.argv[1:]
			def change(i):
			    with open(f"{export}/file{i}", "r+b", buffering=0) as f:
			        while True:
			            os.pwrite(f.fileno(), b"x", 0)
			            time.sleep(0.001)
			def use(i):
			    try:
			        for n in range(1, 1000000):
			            with open(f"{mnt}/file{i}", "rb") as f:
			                while f.read(1 << 20):
			                    os.fstat(f.fileno())
			            if i == 0:
			                with open(progress + ".new", "w") as p:
			                    p.write(str(n))
			                os.rename(progress + ".new", progress)
			    except OSError:
			        pass
			for i in range(4):
			    with open(f"{export}/file{i}", "wb") as f:
			        f.truncate(4 << 20)
			ps = [multiprocessing.Process(target=t, args=(i,), daemon=True) for i in range(4) for t in (change, use)]
			for p in ps: p.start()
			while not os.path.exists(over):
			    time.sleep(0.02)
		EOF
		users=$!
		wait_until 30 at_least 20 "$T/progress" || fail "nothing is read"
		pid=$(daemon_pid "$mnt")
		kill -TERM "$pid"
		wait_until 20 process_ended "$pid" || fail "round $round: the daemon does not end on SIGTERM"
		touch "$T/over"
		wait "$users"
		is_not_mounted "$mnt" || fail "the mount is still there"
	done
}

test_killed_daemon_can_be_unmounted()
{
	serve_and_mount
	echo x >"$mnt/file"
	local pid
	pid=$(daemon_pid "$mnt")
	kill -KILL "$pid"
	wait_until 10 process_ended "$pid"
	assert_fails timeout 20 ls "$mnt"
	umount "$mnt"
	mount_nfs "$export" "$mnt"
	assert_eq "$(cat "$mnt/file")" x
}

# What the clean-up at the last close would have removed stays, as an ordinary file.
test_leftovers_of_a_killed_client()
{
	serve_and_mount
	mkdir "$mnt/dir"
	echo kept >"$mnt/dir/file"
	exec 7<"$mnt/dir/file"
	rm "$mnt/dir/file"
	local left
	left=$(ls -A "$export/dir")
	[[ $left == .nfs* ]] || fail "the file that is open is not there under another name: '$left'"
	# While it is open here, nobody here takes that name away.
	assert_fails rm -f "$mnt/dir/$left"
	assert_fails rmdir "$mnt/dir"
	kill -KILL "$(daemon_pid "$mnt")"
	exec 7<&-
	umount "$mnt"
	mount_nfs "$export" "$mnt"
	assert_eq "$(cat "$mnt/dir/$left")" kept
	exec 7<>"$mnt/dir/$left"
	rm "$mnt/dir/$left"
	assert_eq "$(cat <&7)" kept "a leftover that is removed while open"
	exec 7>&-
	empty()
	{
		[ -z "$(ls -A "$export/dir")" ]
	}
	wait_until 10 empty || fail "left over: $(ls -A "$export/dir")"
	rmdir "$mnt/dir"
}

tests_main "$@"
