#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What one mount promises to those who work in it.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

# A user that nobody is; none is added to the machine.
user=64531
# fusermount3 wants a name.
named_user=65534

as_user()
{
	setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

test_data_both_ways()
{
	serve_and_mount
	local size
	for size in 0 1 4095 4096 4097 131071 1048576 1048577 3333333; do
		pattern_file "$T/in" "$size" "in $size"
		cp "$T/in" "$mnt/in"
		cmp "$T/in" "$export/in"
		pattern_file "$export/out$size" "$size" "out $size"
		cmp "$export/out$size" "$mnt/out$size"
	done
}

test_o_direct()
{
	serve_and_mount
	python3 - "$mnt/file" "$export/file" <<-'EOF'
		import mmap, os, random, sys
		rng = random.Random(7)
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
		model = bytearray(8 << 20)
		buf = mmap.mmap(-1, 2 << 20)
		os.pwritev(fd, [memoryview(buf)[:4096]], len(model) - 4096)
		for i in range(300):
		    n = rng.choice((4096, 8192, 65536, 1 << 20, 2 << 20))
		    off = rng.randrange((len(model) - n) // 4096 + 1) * 4096
		    view = memoryview(buf)[:n]
		    if rng.random() < .5:
		        view[:] = rng.randbytes(n)
		        assert os.pwritev(fd, [view], off) == n
		        model[off:off + n] = view
		    else:
		        got = os.preadv(fd, [view], off)
		        assert got == n, (off, n, got)
		        assert view == model[off:off + n], (off, n)
		assert os.preadv(fd, [memoryview(buf)[:8192]], len(model) - 4096) == 4096, "a read across the end"
		assert os.preadv(fd, [memoryview(buf)[:4096]], len(model)) == 0, "a read at the end"
		os.fsync(fd)
		os.close(fd)
		assert open(sys.argv[2], "rb").read() == model
	EOF
}

test_mmap_shared_write()
{
	serve_and_mount
	pattern_file "$export/file" 1000000 mmap
	python3 - "$mnt/file" "$export/file" <<-'EOF'
		import mmap, os, sys
		model = bytearray(open(sys.argv[2], "rb").read())
		with open(sys.argv[1], "r+b") as f:
		    m = mmap.mmap(f.fileno(), 0)
		    assert m[:] == model
		    for off in (0, 4095, 4096, 500000, 999990):
		        m[off:off + 10] = model[off:off + 10] = b"0123456789"
		    m.flush()
		    assert open(sys.argv[2], "rb").read() == model, "after msync the server has other data"
		    m[700000:700005] = model[700000:700005] = b"abcde"
		    m.close()
		    os.fsync(f.fileno())
		assert open(sys.argv[2], "rb").read() == model, "after munmap and fsync the server has other data"
	EOF
}

test_truncate_and_append()
{
	serve_and_mount
	local f=$mnt/file
	printf 'hello' >"$f"
	printf ' world' >>"$f"
	assert_eq "$(cat "$export/file")" "hello world"
	truncate -s 3 "$f"
	assert_eq "$(cat "$f")" "hel"
	printf 'p' >>"$f"
	assert_eq "$(cat "$f")" "help"
	truncate -s 10000 "$f"
	assert_eq "$(stat -c %s "$f")" 10000 "size"
	assert_eq "$(tail -c +5 "$f" | tr -d '\0' | wc -c)" 0 "bytes that are not zero in the new part"
	printf 'again' >"$f"
	assert_eq "$(cat "$export/file")" "again" "after O_TRUNC"
	# Appenders of one mount do not overwrite each other.
	local i
	for i in 1 2 3 4 5 6 7 8; do
		(for _ in $(seq 50); do echo "line of $i" >>"$mnt/log"; done) &
	done
	# shellcheck disable=SC2046 # pids
	wait $(jobs -p | grep -vx "$exportd_pid")
	assert_eq "$(grep -c '^line of [1-8]$' "$export/log")" 400 "whole lines in the log"
}

test_unlinked_open_file()
{
	serve_and_mount
	pattern_file "$export/file" 300000 unlinked
	cp "$export/file" "$T/copy"
	python3 - "$mnt/file" "$T/copy" <<-'EOF'
		import os, sys
		want = bytearray(open(sys.argv[2], "rb").read())
		fd = os.open(sys.argv[1], os.O_RDWR)
		os.unlink(sys.argv[1])
		assert not os.path.exists(sys.argv[1])
		os.pwrite(fd, b"still here", 1000)
		want[1000:1010] = b"still here"
		os.fsync(fd)
		os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		assert os.pread(fd, 1 << 20, 0) == want
		assert os.fstat(fd).st_size == len(want)
		os.ftruncate(fd, 5)
		assert os.fstat(fd).st_size == 5
		# The name is free again while the old file is open.
		with open(sys.argv[1], "w") as f:
		    f.write("new")
		assert os.pread(fd, 100, 0) == want[:5]
		os.close(fd)
	EOF
	assert_eq "$(cat "$export/file")" new
	only_file_left()
	{
		[ "$(find "$export" -mindepth 1 -printf '%P ')" = "file " ]
	}
	wait_until 10 only_file_left || fail "left over: $(ls -A "$export")"
}

test_rename_over_open_file()
{
	serve_and_mount
	echo old >"$mnt/target"
	echo new >"$mnt/source"
	exec 7<"$mnt/target"
	mv "$mnt/source" "$mnt/target"
	assert_eq "$(cat "$mnt/target")" new
	assert_eq "$(cat <&7)" old "what the open file holds"
	exec 7<&-
	[ ! -e "$mnt/source" ] || fail "the source is still there"
	only_target_left()
	{
		[ "$(find "$export" -mindepth 1 -printf '%P ')" = "target " ]
	}
	wait_until 10 only_target_left || fail "left over: $(ls -A "$export")"
}

test_symlinks_to_4095_bytes()
{
	serve_and_mount
	python3 - "$mnt" "$export" <<-'EOF'
		import os, random, sys
		mnt, export = (os.fsencode(a) for a in sys.argv[1:])
		rng = random.Random(3)
		for n in (1, 2, 3, 4, 59, 60, 255, 1000, 1023, 1024, 2047, 2048, 4000, 4095):
		    target = bytes(rng.choice(range(1, 256)) for _ in range(n))
		    name = b"link%d" % n
		    os.symlink(target, os.path.join(mnt, name))
		    assert os.readlink(os.path.join(export, name)) == target, n
		    assert os.readlink(os.path.join(mnt, name)) == target, n
		    back = b"back%d" % n
		    os.symlink(target, os.path.join(export, back))
		    assert os.readlink(os.path.join(mnt, back)) == target, n
		    assert os.lstat(os.path.join(mnt, back)).st_size == n
	EOF
	ln -s . "$mnt/self"
	echo here >"$mnt/file"
	assert_eq "$(cat "$mnt/self/self/self/file")" here
}

test_names_are_bytes()
{
	serve_and_mount
	python3 - "$mnt" "$export" <<-'EOF'
		import errno, os, sys
		mnt, export = (os.fsencode(a) for a in sys.argv[1:])
		any_byte = bytes(b for b in range(1, 256) if b != ord("/"))
		names = [any_byte[i:i + 100] for i in range(0, len(any_byte), 100)]
		names += [b"\xff" * 255, b"n" * 255, "\u00fc\u4e2d\U0001f600".encode(), b" ", b"\n", b"...", b"-rf", b"a\\b", any_byte + b"x"]
		for n in names:
		    with open(os.path.join(mnt, n), "xb") as f:
		        f.write(n)
		assert set(os.listdir(export)) == set(names), "the server has other names"
		assert set(os.listdir(mnt)) == set(names), "the mount lists other names"
		for n in names:
		    assert open(os.path.join(mnt, n), "rb").read() == n
		    os.rename(os.path.join(mnt, n), os.path.join(mnt, n[:-1] + b"~"))
		    os.unlink(os.path.join(mnt, n[:-1] + b"~"))
		try:
		    open(os.path.join(mnt, b"n" * 256), "xb")
		except OSError as e:
		    assert e.errno == errno.ENAMETOOLONG, e
		else:
		    raise AssertionError("a name of 256 bytes was taken")
		assert os.listdir(export) == []
	EOF
}

test_sparse_and_beyond_4_gib()
{
	serve_and_mount
	python3 - "$mnt/file" "$export/file" <<-'EOF'
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		places = [0, (1 << 31) - 3, (1 << 32) - 5, (1 << 32) + 12345, 5 << 30, (1 << 41) + 7]
		for i, p in enumerate(places):
		    assert os.pwrite(fd, b"place %02d at %d" % (i, p), p) > 0
		os.fsync(fd)
		os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		far = os.open(sys.argv[2], os.O_RDONLY)
		for i, p in enumerate(places):
		    want = b"place %02d at %d" % (i, p)
		    assert os.pread(far, len(want), p) == want, p
		    assert os.pread(fd, len(want), p) == want, p
		assert os.pread(fd, 100000, 3 << 30) == bytes(100000), "a hole is not zero"
		assert os.fstat(fd).st_size == os.fstat(far).st_size
		assert os.fstat(fd).st_blocks < 2048, "a sparse file is shown as full: %d blocks" % os.fstat(fd).st_blocks
		os.ftruncate(fd, 6 << 30)
		assert os.fstat(far).st_size == 6 << 30
	EOF
}

test_directories()
{
	serve_and_mount
	mkdir -p "$mnt/a/b/c"
	assert_fails mkdir "$mnt/a"
	assert_fails rmdir "$mnt/a"
	assert_fails rmdir "$mnt/none"
	touch "$mnt/a/b/c/file"
	mv "$mnt/a/b" "$mnt/moved"
	[ -f "$export/moved/c/file" ] || fail "the file did not move along"
	assert_fails mv "$mnt/moved" "$mnt/moved/c/"
	assert_eq "$(stat -c %h "$mnt/moved")" "$(stat -c %h "$export/moved")" "links of a directory"
	cd "$mnt/moved/c"
	mv "$mnt/moved" "$mnt/again"
	[ -f file ] || fail "the working directory was lost by a rename above it"
	assert_eq "$(realpath ..)" "$mnt/again"
	cd "$T"
	rm -r "$mnt/again" "$mnt/a"
	assert_eq "$(ls -A "$export")" ""
	# A name that was looked for in vain appears as soon as it is made here.
	[ ! -e "$mnt/soon" ]
	mkdir "$mnt/soon"
	[ -d "$mnt/soon" ]
}

# Others make and remove names while one goes through the directory, back to places that it remembers, and to its beginning.
test_a_listing_while_names_come_and_go()
{
	local rounds=12 count=2000
	[ "$SCALE" = small ] && rounds=4 count=500
	serve_and_mount nconnect=2
	python3 - "$mnt" "$export" "$rounds" "$count" <<-'EOF'
		import ctypes, multiprocessing, os, random, struct, sys
		mnt, export, rounds, count = sys.argv[1:]
		libc = ctypes.CDLL(None, use_errno=True)
		def getdents(fd, room):
		    buffer = ctypes.create_string_buffer(room)
		    n = libc.syscall(217, fd, buffer, room)
		    assert n >= 0, os.strerror(ctypes.get_errno())
		    found, at = [], 0
		    while at < n:
		        _, off, length, _ = struct.unpack_from("=QqHB", buffer, at)
		        found.append((buffer.raw[at + 19:at + length].split(b"\0")[0].decode(), off))
		        at += length
		    return found
		stay = {"stays%d" % i for i in range(int(count))}
		for name in stay:
		    open(f"{export}/{name}", "w").close()
		end = multiprocessing.Event()
		def disturb(directory, seed):
		    rng = random.Random(seed)
		    while not end.is_set():
		        name = f"{directory}/goes{seed}.{rng.randrange(300)}"
		        (os.unlink if os.path.lexists(name) else lambda n: open(n, "w").close())(name)
		others = [multiprocessing.Process(target=disturb, args=(d, i), daemon=True) for i, d in enumerate((mnt, export))]
		for p in others: p.start()
		rng = random.Random(5)
		for round in range(int(rounds)):
		    fd = os.open(mnt, os.O_RDONLY)
		    seen, places = [], [(0, 0)]
		    while True:
		        some = getdents(fd, rng.choice((512, 4096, 32768)))
		        if not some:
		            break
		        for name, off in some:
		            seen.append(name)
		            places.append((off, len(seen)))
		        if rng.random() < 0.2: # as seekdir(3) does; what follows the place comes again
		            off, count = rng.choice(places) if round % 2 else places[0]
		            os.lseek(fd, off, os.SEEK_SET)
		            del seen[count:], places[count + 1:]
		    os.close(fd)
		    assert len(seen) == len(set(seen)), "twice: %s" % sorted(n for n in seen if seen.count(n) > 1)[:5]
		    missing = stay - set(seen)
		    assert not missing, "left out: %s" % sorted(missing)[:5]
		end.set()
		for p in others: p.join()
		assert all(p.exitcode == 0 for p in others)
	EOF
}

limits[a_directory_of_many_names]=900
test_a_directory_of_many_names()
{
	local count=100000 before after
	[ "$SCALE" = small ] && count=5000
	[ "$SCALE" = full ] && count=1000000
	mkdir -p "$T/export/many"
	python3 -c '
import os, sys
for i in range(int(sys.argv[2])):
    os.mknod("%s/many/name%07d" % (sys.argv[1], i))' "$T/export" "$count"
	serve_and_mount
	resident_kib()
	{
		awk '/^VmRSS:/ {print $2}' "/proc/$(daemon_pid "$mnt")/status"
	}
	before=$(resident_kib)
	python3 -c '
import os, sys
want = int(sys.argv[2])
seen = bytearray(want)
with os.scandir(sys.argv[1]) as entries:
    for e in entries:
        i = int(e.name[4:])
        assert not seen[i], e.name + " came twice"
        assert e.is_file(), e.name
        seen[i] = 1
assert sum(seen) == want, "%d names of %d" % (sum(seen), want)' "$mnt/many" "$count"
	after=$(resident_kib)
	[ $((after - before)) -lt 16384 ] || fail "a listing of $count names took $((after - before)) KiB"
}

test_special_files()
{
	serve_and_mount
	mkfifo -m 640 "$mnt/fifo"
	mknod "$mnt/null" c 1 3
	mknod "$mnt/block" b 7 300
	(cd "$mnt" && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")')
	assert_eq "$(stat -c '%F %a' "$export/fifo")" "fifo 640"
	assert_eq "$(stat -c '%F %t:%T' "$export/null")" "character special file 1:3"
	assert_eq "$(stat -c '%F %t:%T' "$mnt/block")" "block special file 7:12c"
	assert_eq "$(stat -c %F "$mnt/sock")" "socket"
	(echo through >"$mnt/fifo") &
	local writer=$!
	assert_eq "$(cat "$mnt/fifo")" through
	wait "$writer"
	# Mounted nodev unless asked otherwise.
	assert_fails sh -c ": <'$mnt/null'"
}

test_attributes()
{
	serve_and_mount
	local f=$mnt/file
	echo x >"$f"
	chmod 6751 "$f"
	assert_eq "$(stat -c %a "$export/file")" 6751
	chown 1234:5678 "$f"
	assert_eq "$(stat -c %u:%g "$export/file")" 1234:5678
	touch -d '2001-02-03 04:05:06.123456789' "$f"
	assert_eq "$(stat -c %y "$f")" "$(stat -c %y "$export/file")" "mtime"
	assert_eq "$(stat -c %.9Y "$f")" "$(date -d '2001-02-03 04:05:06.123456789' +%s.%N)" "mtime"
	touch -a -d '2100-01-01 00:00:00.5' "$f"
	assert_eq "$(stat -c %.9X "$export/file")" "$(date -d '2100-01-01 00:00:00.5' +%s.%N)" "atime"
	touch "$f"
	[ $(($(date +%s) - $(stat -c %Y "$export/file"))) -lt 100 ] || fail "touch did not set the time to now"
	assert_eq "$(stat -c %i "$f")" "$(stat -c %i "$export/file")" "file number"
	ln "$f" "$mnt/other"
	assert_eq "$(stat -c %h "$f")" 2 "links"
	assert_eq "$(stat -c %i "$mnt/other")" "$(stat -c %i "$f")"
	rm "$f"
	assert_eq "$(stat -c %h "$mnt/other")" 1 "links"
	# What may be counted on about room and files is what the server's file system says.
	assert_eq "$(stat -f -c '%b' "$mnt" | awk '{print ($1 > 0)}')" 1 "blocks in statfs"
	assert_eq "$(($(stat -f -c '%b * %S' "$mnt")))" "$(($(stat -f -c '%b * %S' "$export")))" "size in statfs"
	assert_eq "$(stat -f -c '%c %l' "$mnt")" "$(stat -f -c '%c %l' "$export")" "files and name length in statfs"
}

test_setuid_bit_falls_when_another_writes()
{
	serve_and_mount
	echo program >"$mnt/program"
	chmod 6777 "$mnt/program"
	as_user sh -c "echo more >>'$mnt/program'"
	assert_eq "$(stat -c %a "$export/program")" 777 "mode at the server"
	assert_eq "$(stat -c %a "$mnt/program")" 777 "mode"
}

test_exclusive_create_has_one_winner()
{
	serve_and_mount
	python3 - "$mnt" <<-'EOF'
		import os, sys
		from multiprocessing import Barrier, Process, Value
		wins, barrier = Value("i", 0), Barrier(8)
		def race():
		    for i in range(60):
		        barrier.wait()
		        try:
		            os.close(os.open("%s/lock%d" % (sys.argv[1], i), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
		        except FileExistsError:
		            continue
		        with wins.get_lock():
		            wins.value += 1
		ps = [Process(target=race) for _ in range(8)]
		for p in ps: p.start()
		for p in ps: p.join()
		assert all(p.exitcode == 0 for p in ps)
		assert wins.value == 60, wins.value
	EOF
	assert_eq "$(stat -c %a "$export"/lock* | sort -u)" 640 "mode of exclusively created files"
}

test_locks_between_processes()
{
	serve_and_mount
	touch "$mnt/lock"
	exec 7>"$mnt/lock"
	flock -n 7
	assert_fails flock -n "$mnt/lock" true
	exec 7>&-
	flock -n "$mnt/lock" true
	python3 - "$mnt/lock" <<-'EOF'
		import fcntl, os, sys
		f = open(sys.argv[1], "r+")
		fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)
		pid = os.fork()
		if pid == 0:
		    g = open(sys.argv[1], "r+")
		    fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)
		    try:
		        fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 14)
		    except OSError:
		        os._exit(0)
		    os._exit(1)
		assert os.waitpid(pid, 0)[1] == 0, "another process got a locked range"
	EOF
}

test_read_only_mount()
{
	mkdir "$T/export"
	echo x >"$T/export/file"
	serve_and_mount ro
	assert_eq "$(cat "$mnt/file")" x
	assert_fails touch "$mnt/new"
	assert_fails sh -c "echo y >>'$mnt/file'"
	assert_eq "$(cat "$export/file")" x
}

test_server_root_squash()
{
	mkdir -m 777 "$T/export"
	echo secret >"$T/export/secret"
	chmod 600 "$T/export/secret"
	mkdir -p "$T/mnt"
	start_exportd "$T/export"
	mount_nfs "$T/export" "$T/mnt"
	assert_fails cat "$T/mnt/secret"
	echo mine >"$T/mnt/mine"
	[ "$(stat -c %u "$T/export/mine")" != 0 ] || fail "root made a file as root"
}

count_connections()
{
	[ "$(awk -v port="$(printf ':%04X' "$rdma_port")" '$4 == "01" && $3 ~ port "$"' /proc/net/tcp | wc -l)" -eq "$1" ]
}

test_nconnect_4()
{
	serve_and_mount nconnect=4
	wait_until 10 count_connections 4 || fail "there are not 4 connections"
	python3 - "$mnt" <<-'EOF'
		import os, random, sys
		from concurrent.futures import ThreadPoolExecutor
		def work(i):
		    data = random.Random(i).randbytes(3 << 20)
		    path = "%s/file%d" % (sys.argv[1], i)
		    with open(path, "wb") as f:
		        f.write(data)
		        f.flush()
		        os.fsync(f.fileno())
		        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
		    return open(path, "rb").read() == data
		with ThreadPoolExecutor(16) as pool:
		    assert all(pool.map(work, range(48)))
	EOF
	local i
	for i in 0 13 47; do
		cmp "$mnt/file$i" "$export/file$i"
	done
}

test_memreg_persistent_works_and_warns()
{
	serve_and_mount memreg=persistent
	grep -qi 'persistent' "$mount_log" || fail "nothing is said of memreg=persistent at mount: $(cat "$mount_log")"
	grep -qi 'warning' "$mount_log" || fail "no warning: $(cat "$mount_log")"
	pattern_file "$T/in" 5000000 persistent
	cp "$T/in" "$mnt/file"
	drop_caches "$mnt"
	cmp "$T/in" "$mnt/file"
	cmp "$T/in" "$export/file"
}

test_small_rsize_and_wsize()
{
	serve_and_mount rsize=4096,wsize=8192
	pattern_file "$T/in" 3000001 small
	cp "$T/in" "$mnt/file"
	drop_caches "$mnt"
	cmp "$T/in" "$mnt/file"
	cmp "$T/in" "$export/file"
}

test_uncached_modes()
{
	serve_and_mount noac,lookupcache=none,nordirplus,sync
	cp -a /usr/include/linux/netfilter "$mnt/tree"
	diff -r --no-dereference /usr/include/linux/netfilter "$mnt/tree"
	diff <(tree_list /usr/include/linux/netfilter) <(tree_list "$mnt/tree")
	echo changed >"$export/new"
	assert_eq "$(cat "$mnt/new")" changed
}

# A test of its own calls it first: $user may mount $T/export, which is his, on $T/mnt.
for_an_ordinary_user()
{
	if [ "$(stat -c %a /dev/fuse)" != 666 ] && [ -z "${OPEN_FUSE:-}" ]; then
		# A device node that everybody may open, as udev makes it: seen by this test alone.
		OPEN_FUSE=1 exec unshare --mount --propagation private bash "$lib_script" --one "$test_name"
	fi
	if [ -n "${OPEN_FUSE:-}" ]; then
		mknod -m 666 "$T/fuse" c 10 229
		mount --bind "$T/fuse" /dev/fuse
	fi
	user=$named_user
	mkdir "$T/bin"
	cp "$NFSRDMA" "$T/bin/nfsrdma"
	NFSRDMA=$T/bin/nfsrdma
	mkdir -m 755 "$T/export" "$T/mnt"
	chown "$user:$user" "$T/export" "$T/mnt"
	start_exportd "$T/export"
}

test_mounted_by_an_ordinary_user()
{
	for_an_ordinary_user
	as_user timeout 60 "$NFSRDMA" "127.0.0.1:$T/export" "$T/mnt" -o "port=$rdma_port,mountport=$tcp_port" >"$T/user.log" 2>&1 ||
		fail "mount failed: $(cat "$T/user.log")"
	is_mounted "$T/mnt" || fail "not mounted"
	local pid
	pid=$(daemon_pid "$T/mnt")
	assert_eq "$(awk '/^Uid:/ {print $2}' "/proc/$pid/status")" "$user" "uid of the daemon"
	as_user sh -c "echo hello >'$T/mnt/file' && cat '$T/mnt/file'" >"$T/got"
	assert_eq "$(cat "$T/got")" hello
	assert_eq "$(stat -c %u "$T/export/file")" "$user"
	# Others do not get in, not even root.
	assert_fails cat "$T/mnt/file"
	as_user fusermount3 -u "$T/mnt"
	wait_until 20 process_ended "$pid" || fail "the daemon goes on after the unmount"
	! is_mounted "$T/mnt" || fail "still mounted"
}

# Room for the program, its parent and the thread for notifications, and not for eight lanes.
test_lanes_that_cannot_start()
{
	for_an_ordinary_user
	local status=0
	as_user prlimit --nproc=6 timeout 60 "$NFSRDMA" "127.0.0.1:$T/export" "$T/mnt" -o "port=$rdma_port,mountport=$tcp_port,nconnect=8,arena=16M" \
		>"$T/out" 2>&1 </dev/null || status=$?
	cat "$T/out"
	assert_eq "$status" 1 "exit status"
	assert_eq "$(wc -l <"$T/out")" 1 "lines"
	grep -q nconnect "$T/out" || fail "the message says not what to do"
	! is_mounted "$T/mnt" || fail "mounted all the same"
}

test_fstab()
{
	mkdir "$T/export" "$T/mnt" "$T/bin"
	cp "$NFSRDMA" "$T/bin/nfsrdma"
	NFSRDMA=$T/bin/nfsrdma
	start_exportd "$T/export" --no-root-squash
	echo "127.0.0.1:$T/export $T/mnt fuse.nfsrdma _netdev,nofail,x-systemd.automount,noatime,port=$rdma_port,mountport=$tcp_port 0 0" >"$T/fstab"
	# mount(8) passes no PATH on: in a mount namespace of its own the program lies where it would be installed.
	# shellcheck disable=SC2016 # for the inner shell
	T=$T unshare --mount --propagation private bash -euxc '
		mount --bind "$T/bin" /usr/local/sbin
		timeout 60 mount -T "$T/fstab" -a -t fuse.nfsrdma
		findmnt -n -o FSTYPE,SOURCE "$T/mnt" | tr -s " " >"$T/found"
		echo hello >"$T/mnt/file"
		# Once more changes nothing.
		timeout 60 mount -T "$T/fstab" -a -t fuse.nfsrdma
		grep -c " $T/mnt " /proc/self/mountinfo >"$T/mounts"
		timeout 60 umount "$T/mnt"'
	assert_eq "$(cat "$T/found")" "fuse.nfsrdma 127.0.0.1:$T/export" "what findmnt says"
	assert_eq "$(cat "$T/mounts")" 1 "mounts"
	assert_eq "$(cat "$T/export/file")" hello
	no_daemon()
	{
		! daemon_pid "$T/mnt" >/dev/null
	}
	wait_until 20 no_daemon || fail "the daemon goes on after the unmount"
}

# AUTH_SYS carries 16: those with the lowest numbers, beside the primary one.
test_of_more_than_16_groups_the_lowest_count()
{
	serve_and_mount
	local group groups
	groups=$(seq -s , 64620 -1 64601)
	for group in 64601 64616 64617 64620; do
		echo "of $group" >"$export/$group"
		chgrp "$group" "$export/$group"
		chmod 040 "$export/$group"
	done
	in_many_groups()
	{
		setpriv --reuid "$user" --regid "$1" --groups "$groups" cat "$mnt/$2"
	}
	assert_eq "$(in_many_groups "$user" 64601)" "of 64601"
	assert_eq "$(in_many_groups "$user" 64616)" "of 64616"
	assert_fails in_many_groups "$user" 64617
	assert_fails in_many_groups "$user" 64620
	assert_eq "$(in_many_groups 64620 64620)" "of 64620"
	assert_eq "$(in_many_groups 64601 64617)" "of 64617"
}

# An open of a file that others have just changed is sent back once by the client; a second time would be an error.
test_opening_a_file_that_others_keep_changing()
{
	serve_and_mount
	python3 - "$mnt/file" "$export/file" <<-'EOF'
		import multiprocessing, os, sys, time
		open(sys.argv[2], "w").close()
		end = time.monotonic() + 3
		def change():
		    with open(sys.argv[2], "ab", buffering=0) as f:
		        while time.monotonic() < end:
		            f.write(b"x")
		            time.sleep(0.0003)
		def use():
		    while time.monotonic() < end:
		        os.close(os.open(sys.argv[1], os.O_RDONLY))
		ps = [multiprocessing.Process(target=t) for t in (change, use, use, use, use)]
		for p in ps: p.start()
		for p in ps: p.join()
		assert all(p.exitcode == 0 for p in ps)
	EOF
}

# The kernel closes what is marked close-on-exec in the middle of execve(2), with the thread's state locked: whoever looks at
# the caller then must not wait for it.
limits[exec_closes_files_with_pending_data]=30
test_exec_closes_files_with_pending_data()
{
	serve_and_mount
	python3 - "$mnt" <<-'EOF'
		import os, sys
		for i in range(20):
		    pid = os.fork()
		    if pid == 0:
		        fd = os.open(f"{sys.argv[1]}/file{i}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
		        os.write(fd, b"pending" * 1000)
		        os.execv("/bin/true", ["true"])
		    assert os.waitpid(pid, 0)[1] == 0
	EOF
	python3 -c 'print("pending" * 1000, end="")' | cmp - "$export/file19"
}

test_pending_data_reaches_the_server_by_itself()
{
	serve_and_mount
	exec 7>"$mnt/file"
	pattern_file "$T/in" 2000000 pending
	cat "$T/in" >&7
	same()
	{
		cmp -s "$T/in" "$export/file"
	}
	wait_until 30 same || fail "after 30 s the server has not got what was written and not closed"
	exec 7>&-
}

test_unmount_saves_everything()
{
	serve_and_mount
	pattern_file "$T/in" 20000000 unmount
	cp "$T/in" "$mnt/file"
	umount_nfs "$mnt"
	cmp "$T/in" "$export/file"
}

# The kernel tells of a close when it gets round to it, and of none after the unmount.
test_files_removed_while_open_are_gone_after_the_unmount()
{
	serve_and_mount
	python3 - "$mnt" <<-'EOF'
		import os, sys
		for i in range(100):
		    os.open(f"{sys.argv[1]}/file{i}", os.O_RDWR | os.O_CREAT)
		    os.unlink(f"{sys.argv[1]}/file{i}")
	EOF
	umount_nfs "$mnt"
	assert_eq "$(ls -A "$export")" "" "what is left on the server"
}

test_statistics()
{
	serve_and_mount
	pattern_file "$T/in" 5000000 statistics
	cp "$T/in" "$mnt/file"
	drop_caches "$mnt"
	cmp "$T/in" "$mnt/file"
	"$STAT" "$mnt" >"$T/stat" || fail "nfsrdma-stat failed"
	[ -s "$T/stat" ] || fail "nfsrdma-stat says nothing"
}

test_ipv6()
{
	grep -q ' lo$' /proc/net/if_inet6 2>/dev/null || skip "no IPv6"
	SERVER_ADDRESS='[::1]'
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash --listen ::1
	mount_nfs "$T/export" "$T/mnt" nconnect=2
	cp -a /usr/include/linux/netfilter "$T/mnt/tree"
	diff -r --no-dereference /usr/include/linux/netfilter "$T/export/tree"
	umount_nfs "$T/mnt"
}

# polls MOUNTPOINT: how often its lanes took another turn instead of going to sleep.
polls()
{
	"$STAT" "$1" --json >"$T/stat" || fail "nfsrdma-stat failed"
	python3 -c 'import json, sys; print(sum(lane["fuse"]["polls"] for lane in json.load(sys.stdin)["lanes"]))' <"$T/stat"
}

test_lanes_poll_only_when_told_to()
{
	serve_and_mount
	pattern_file "$export/file" 1000000 poll
	dd if="$mnt/file" bs=4096 iflag=direct status=none | cmp - "$export/file"
	assert_eq "$(polls "$mnt")" 0 "turns for polling without poll="
	umount_nfs "$mnt"
	mount_nfs "$export" "$mnt" poll=5000
	dd if="$mnt/file" bs=4096 iflag=direct status=none | cmp - "$export/file"
	[ "$(polls "$mnt")" -gt 0 ] || fail "no polling with poll=5000"
	umount_nfs "$mnt"
}

tests_main "$@"
