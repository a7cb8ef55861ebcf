#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Heap memory that READ and WRITE take on a warm mount, counted from outside: none in our objects.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

preload=$build_dir/tests/alloc/malloc_attr.so

# of OBJECT COLUMN FILE: one number out of what alloc.py printed.
of()
{
	awk -v object="$1" -v column="$2" '$1 == object && $2 == column { print $3 }' "$3"
}

# The instrument first: it must see all that is there, and nothing that is not.
test_the_counter_counts()
{
	local n
	for n in 0 1000; do
		: >"$T/counts"
		MALLOC_ATTR_FILE=$T/counts LD_PRELOAD=$preload "$build_dir/tests/alloc/malloc_attr_self" $n
		python3 "$lib_dir/alloc/alloc.py" "$T/counts" >"$T/told.$n"
		cat "$T/told.$n"
		# malloc and the C library's malloc in strdup.
		assert_eq "$(of program mallocs "$T/told.$n")" $((2 * n)) mallocs
		assert_eq "$(of program callocs "$T/told.$n")" "$n" callocs
		assert_eq "$(of program reallocs "$T/told.$n")" "$n" reallocs
		assert_eq "$(of program aligneds "$T/told.$n")" "$n" "aligned allocations"
		assert_eq "$(of program frees "$T/told.$n")" $((4 * n)) frees
	done
}

# io FILE TURNS: reads and writes of all sizes through one open file, past the page cache and through it.
io()
{
	python3 - "$@" <<-'EOF'
		import mmap, os, sys
		path, turns = sys.argv[1], int(sys.argv[2])
		size = 8 << 20
		buf = memoryview(mmap.mmap(-1, 1 << 20))
		direct = os.open(path, os.O_RDWR | os.O_DIRECT)
		cached = os.open(path + ".cached", os.O_RDWR)
		print("ready", flush=True)
		for line in iter(lambda: os.read(3, 1), b""):
		    for turn in range(turns):
		        for n in (4096, 65536, 1 << 20):
		            at = (turn * n) % size
		            assert os.pwritev(direct, [buf[:n]], at) == n
		            assert os.preadv(direct, [buf[:n]], at) == n
		        at = (turn * 12345) % size
		        os.pwrite(cached, buf[:20000], at)
		        assert os.pread(cached, 20000, at) == bytes(20000)
		    os.fsync(direct)
		    os.posix_fadvise(cached, 0, 0, os.POSIX_FADV_DONTNEED)
		    print("done", flush=True)
	EOF
}

warm_mount()
{
	local turns=200
	[ "$SCALE" = full ] && turns=5000
	export=$T/export
	mkdir "$export"
	truncate -s 8M "$export/file" "$export/file.cached"
	start_exportd "$export" --no-root-squash
	: >"$T/counts"
	chmod 666 "$T/counts"
	mount_env=("MALLOC_ATTR_FILE=$T/counts" "LD_PRELOAD=$preload")
	mount_nfs "$export" "$T/mnt" "$1"

	mkfifo "$T/go" "$T/answer"
	io "$T/mnt/file" $turns 3<"$T/go" >"$T/answer" &
	local worker=$! answer
	exec 7>"$T/go" 8<"$T/answer"
	next()
	{
		read -r -t 100 answer <&8 || fail "no answer from the worker"
		assert_eq "$answer" "$1"
	}
	next ready
	# Warm: every buffer that is ever needed has been needed.
	printf x >&7
	next "done"
	python3 "$lib_dir/alloc/alloc.py" "$T/counts" >"$T/before"
	[ "$(of program callocs "$T/before")" -gt 0 ] || [ "$(of program mallocs "$T/before")" -gt 0 ] ||
		fail "nothing at all was counted: the counter is not in the daemon"
	printf x >&7
	next "done"
	python3 "$lib_dir/alloc/alloc.py" "$T/counts" "$T/before" >"$T/difference"
	exec 7>&- 8<&-
	wait "$worker"
	echo "in $turns * 6 direct reads and writes and $turns * 2 cached ones:"
	grep -v ' 0$' "$T/difference" || true
	local column
	for column in mallocs callocs reallocs aligneds frees; do
		assert_eq "$(of program $column "$T/difference")" 0 "$column in our objects"
	done
}

limits[warm_read_and_write_take_no_memory]=120
test_warm_read_and_write_take_no_memory()
{
	warm_mount ""
}

limits[warm_read_and_write_take_no_memory_nconnect]=120
test_warm_read_and_write_take_no_memory_nconnect()
{
	warm_mount nconnect=4
}

tests_main "$@"
