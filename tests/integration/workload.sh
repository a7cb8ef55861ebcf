#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Real work in a mounted directory, every byte of it checked. Knows nothing of what is mounted there:
#
#   workload.sh DIR [NAME…]	works in a new directory below DIR, which is removed afterwards
#   workload.sh --nfsrdma OPTIONS [NAME…]
#				the same on a mount of its own of a server of its own, mounted with OPTIONS ('' for none)
#
# NAMEs pick tests. SCALE=ci|full sets sizes only.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

case $SCALE in
full) large_mib=8192 many=200000 rows=400 ;;
ci) large_mib=4096 many=100000 rows=100 ;;
small) large_mib=64 many=2000 rows=20 ;; # under sanitizers, and to try these scripts out
*) echo "SCALE is full, ci or small" >&2 && exit 2 ;;
esac
large_mib=${LARGE_MIB:-$large_mib}
# A tree that every Debian machine with a compiler has.
tree=/usr/include
[ "$SCALE" != small ] || tree=/usr/include/linux
tree=${TREE:-$tree}

# $d is this test's directory in the mount.
enter()
{
	d=$WORKLOAD_DIR/$1
	mkdir "$d"
}

limits[cp_a]=600
test_cp_a()
{
	enter cp_a
	cp -a "$tree" "$d/tree"
	drop_caches "$d"
	diff -r --no-dereference "$tree" "$d/tree"
	diff <(tree_list "$tree") <(tree_list "$d/tree")
	rm -r "$d"
}

limits[rsync_checksum]=600
test_rsync_checksum()
{
	enter rsync
	rsync -a --checksum "$tree/" "$d/tree/"
	drop_caches "$d"
	diff -r --no-dereference "$tree" "$d/tree"
	assert_eq "$(rsync -a --checksum --delete --itemize-changes "$tree/" "$d/tree/")" "" "what a second rsync would change"
	# Bytes that differ at the same size and time are seen by checksum only.
	local victim
	victim=$(find "$d/tree" -type f -size +1k | sort | sed -n 5p)
	cp -p "$victim" "$T/was"
	printf 'X' | dd of="$victim" bs=1 seek=700 conv=notrunc status=none
	touch -r "$T/was" "$victim"
	assert_eq "$(rsync -a --checksum --delete --itemize-changes "$tree/" "$d/tree/" | wc -l)" 1 "files that rsync repairs"
	cmp "$T/was" "$victim"
	rm -r "$d"
}

limits[git]=600
test_git()
{
	enter git
	export HOME=$T GIT_CONFIG_NOSYSTEM=1
	git config --global user.name tester
	git config --global user.email tester@example.com
	git config --global init.defaultBranch main
	git config --global safe.directory '*'
	git config --global gc.auto 0
	cd "$d"
	git init -q repo
	cp -r /usr/include/linux repo/linux
	cd repo
	git add .
	git commit -q -m 'First'
	local i
	for i in 1 2 3 4 5 6 7 8; do
		echo "change $i" >>linux/stat.h
		mkdir -p "new/$i"
		cp linux/*"$i"*.h "new/$i/"
		git add .
		git commit -q -m "Change $i"
	done
	git checkout -q -b side HEAD~4
	echo side >side
	git add side
	git commit -q -m 'Side'
	git merge -q -m 'Merge' main
	assert_eq "$(git status --porcelain)" "" "git status"
	git gc -q --prune=now
	drop_caches "$d"
	git fsck --full --strict
	assert_eq "$(git rev-list --count HEAD)" 11 "commits"
	git clone -q --no-local "$d/repo" "$T/clone"
	diff -r --no-dereference --exclude .git . "$T/clone"
	cd /
	rm -r "$d"
}

limits[build_this_project]=900
test_build_this_project()
{
	enter build
	mkdir "$d/src"
	tar -C "$source_dir" --exclude './build*' --exclude ./.git -cf - . | tar -C "$d/src" -xf -
	meson setup "$d/src/build" "$d/src" >"$T/setup.log" || { tail -20 "$T/setup.log" && fail "meson setup"; }
	ninja -C "$d/src/build" >"$T/build.log" || { tail -20 "$T/build.log" && fail "ninja"; }
	# The times in the mount must agree with each other, or everything would be built again.
	ninja -C "$d/src/build" -n | grep -q 'no work to do' || fail "ninja would build again what was just built"
	local programs
	programs=$(find "$d/src/build" -type f -perm -u+x -name 'nfsrdma*' ! -name '*.so*' | wc -l)
	[ "$programs" -ge 1 ] || fail "no program came out"
	"$d/src/build/src/nfsrdma" --help >"$T/help" 2>&1 || fail "the program built in the mount does not start"
	rm -r "$d"
}

sqlite()
{
	enter "$1"
	python3 "$lib_dir/integration/sqlite_writers.py" "$d/db" "$1" 6 "$rows"
	rm -r "$d"
}

limits[sqlite_rollback_journal]=300
test_sqlite_rollback_journal()
{
	sqlite delete
}

limits[sqlite_wal]=300
test_sqlite_wal()
{
	sqlite wal
}

limits[tar]=300
test_tar()
{
	enter tar
	local from=$T/from
	mkdir "$from"
	cp -a /usr/include/linux "$from/"
	: >"$from/empty"
	mkdir "$from/empty-dir" "$from/sticky"
	chmod 1777 "$from/sticky"
	printf 'setuid' >"$from/setuid"
	chmod 4755 "$from/setuid"
	printf 'nothing for anybody' >"$from/closed"
	chmod 0000 "$from/closed"
	ln "$from/setuid" "$from/hard-link"
	ln -s no/such/target "$from/dangling"
	ln -s empty "$from/symlink"
	touch -h -d '2001-02-03 04:05:06.123456789' "$from/symlink"
	mkfifo "$from/fifo"
	printf 'x' >"$from/$(printf 'long%.0s' {1..63})"
	touch -d '1999-12-31 23:59:59.999999999' "$from/empty"
	touch -d '2037-01-01 00:00:00.000000001' "$from/closed"
	touch -d '1970-01-01 00:00:01' "$from/empty-dir"

	tar -C "$from" --format=pax -cf - . | tar -C "$d" -xpf -
	drop_caches "$d"
	diff <(tree_list "$from") <(tree_list "$d")
	# Out again, into an archive in the mount, and compared by tar itself.
	tar -C "$d" --format=pax -cf "$T/out.tar" .
	tar -C "$from" -df "$T/out.tar"
	tar -C "$from" --format=pax -cf "$d/in.tar" .
	drop_caches "$d"
	tar -C "$from" -df "$d/in.tar"
	rm -r "$d"
}

limits[large_file]=600
test_large_file()
{
	enter large
	local sum
	sum=$(python3 "$lib_dir/integration/large_file.py" write "$d/file" "$large_mib")
	drop_caches "$d"
	assert_eq "$(stat -c %s "$d/file")" $((large_mib * 1048576)) "size"
	assert_eq "$(python3 "$lib_dir/integration/large_file.py" read "$d/file" "$large_mib")" "$sum" "checksum"
	rm -r "$d"
}

limits[many_names]=900
test_many_names()
{
	enter names
	python3 -c '
import os, sys
d = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
for i in range(int(sys.argv[2])):
    os.close(os.open("name-%07d" % i, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=d))' "$d" "$many"
	drop_caches "$d"
	# shellcheck disable=SC2012 # ls is what is being tested
	ls -f "$d" | LC_ALL=C sort >"$T/ls"
	assert_eq "$(wc -l <"$T/ls")" $((many + 2)) "names from ls -f"
	assert_eq "$(uniq <"$T/ls" | wc -l)" $((many + 2)) "different names from ls -f"
	drop_caches "$d"
	assert_eq "$(find "$d" -mindepth 1 -type f | wc -l)" "$many" "names from find"
	python3 -c '
import os, sys
got = {e.name for e in os.scandir(sys.argv[1])}
assert got == {"name-%07d" % i for i in range(int(sys.argv[2]))}, "scandir differs"' "$d" "$many"
	# shellcheck disable=SC2012
	assert_eq "$(ls -l "$d" | grep -c '^-rw')" "$many" "lines of ls -l"
	rm -r "$d"
	[ ! -e "$d" ] || fail "the directory is still there"
}

# Removing while listing, as rm -r does, with a reader that holds its place.
test_remove_while_listing()
{
	enter removing
	python3 - "$d" <<-'EOF'
		import os, sys
		d = sys.argv[1]
		want = {"f%04d" % i for i in range(3000)}
		for n in want:
		    open(os.path.join(d, n), "w").close()
		seen = []
		with os.scandir(d) as it:
		    for e in it:
		        seen.append(e.name)
		        if len(seen) % 2:
		            os.unlink(e.path)
		assert len(seen) == len(set(seen)), "a name came twice"
		assert set(seen) == want, "%d names were missed" % len(want - set(seen))
		assert set(os.listdir(d)) == set(seen[1::2]), "wrong names were removed"
	EOF
	rm -r "$d"
}

# Many processes appending, locking, renaming: what a mail or news spool does.
test_parallel_small_files()
{
	enter spool
	python3 - "$d" <<-'EOF'
		import hashlib, os, sys
		from multiprocessing import Process
		d = sys.argv[1]
		def work(who):
		    base = os.path.join(d, str(who))
		    os.mkdir(base)
		    for i in range(150):
		        data = hashlib.sha256(b"%d/%d" % (who, i)).digest() * (1 + i * 7 % 400)
		        tmp = os.path.join(base, ".tmp%d" % i)
		        with open(tmp, "wb") as f:
		            f.write(data)
		            f.flush()
		            if i % 10 == 0:
		                os.fsync(f.fileno())
		        os.rename(tmp, os.path.join(base, "m%d" % i))
		    for i in range(150):
		        data = hashlib.sha256(b"%d/%d" % (who, i)).digest() * (1 + i * 7 % 400)
		        with open(os.path.join(base, "m%d" % i), "rb") as f:
		            assert f.read() == data, (who, i)
		ps = [Process(target=work, args=(w,)) for w in range(8)]
		for p in ps: p.start()
		for p in ps: p.join()
		assert all(p.exitcode == 0 for p in ps), "a worker failed"
	EOF
	assert_eq "$(find "$d" -type f -name 'm*' | wc -l)" 1200 "files"
	rm -r "$d"
}

limits[fsx]=300
test_fsx()
{
	enter fsx
	local ops=4000 seed
	[ "$SCALE" = small ] && ops=800
	[ "$SCALE" = full ] && ops=50000
	ops=${FSX_OPS:-$ops}
	for seed in 1 2 3; do
		python3 "$lib_dir/integration/fsx.py" --seed "$seed" --ops "$ops" "$d/file$seed"
	done
	rm -r "$d"
}

case ${1:-} in
--one)
	tests_main "$@"
	;;
--nfsrdma)
	reason=$(why_no_fuse)
	[ $# -ge 2 ] || { echo "usage: $0 DIR|--nfsrdma OPTIONS [NAME…]" >&2 && exit 2; }
	group_name=workload${2:+/$2}
	if [ -n "$reason" ]; then
		result skip "$group_name" 0 "$reason"
		exit 0
	fi
	if [ -z "${T:-}" ]; then
		# Under a supervisor, who sweeps away what a failure leaves.
		T=$(mktemp -d "$TMPDIR/nfsrdma-test.XXXXXX")
		chmod 755 "$T"
		export T
		exec python3 "$lib_dir/supervise.py" "$T" $((3600 * ${TIME_FACTOR:-1})) bash "$lib_script" "$@"
	fi
	sanitizers_log_to "$T"
	what=mount
	trap '[ -z "$what" ] || result fail "$group_name/$what" 0 "it did not go in the ordinary way"' EXIT
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash
	mount_nfs "$T/export" "$T/mnt" "$2"
	export WORKLOAD_DIR=$T/mnt
	what=
	shift 2
	status=0
	tests_main "$@" || status=1
	what=unmount
	teardown
	what=
	exit $status
	;;
*)
	[ -d "${1:-}" ] || { echo "usage: $0 DIR|--nfsrdma OPTIONS [NAME…]" >&2 && exit 2; }
	WORKLOAD_DIR=$(mktemp -d "$(realpath "$1")/workload.XXXXXX")
	export WORKLOAD_DIR
	shift
	status=0
	tests_main "$@" || status=$?
	# What a failed test has left.
	rm -rf "$WORKLOAD_DIR"
	exit $status
	;;
esac
