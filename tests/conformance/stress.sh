#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/conformance/stress.sh DIR [dbench|fio|stress-ng…]: programs that work hard on a file system and check what they get, in
# a new directory below DIR; by hand, all three or those named. SECONDS_EACH=5 for each stressor, six times that for dbench.
#
# Debian packages: dbench, fio, stress-ng. Prints a line for each part and what one that failed said. Exit status 0 only if none
# failed.

set -u

[ -d "${1:-}" ] || {
	echo "usage: $0 DIR [dbench|fio|stress-ng…]" >&2
	exit 2
}
dir=$(realpath "$1")
shift
parts=("$@")
[ $# -gt 0 ] || parts=(dbench fio stress-ng)
seconds=${SECONDS_EACH:-5}

# What stress-ng has for file systems, and mapped files; without what mounts, needs another file system, or has none to do with
# the one it runs on: bind-mount, binderfs, eventfd, io, procfs, and fanotify, which watches a whole mount.
stressors=(access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fcntl fiemap file-ioctl
	filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify iomix ioprio lease link locka lockf lockofd mknod
	mmap mmapfork msync open readahead rename revio seek sendfile symlink sync-file touch utime verity xattr)

failed=0
work=$(mktemp -d "$dir/stress.XXXXXX") || exit 2
log=$(mktemp)

# part NAME COMMAND…
part()
{
	local name=$1 status=0
	shift
	mkdir "$work/part"
	(cd "$work/part" && "$@") >"$log" 2>&1 || status=$?
	case $status in
	0) echo "ok      $name${says:+: $(grep -E "$says" "$log" | tail -1)}" ;;
	3 | 4) echo "cannot  $name: $(grep -iE 'not|cannot|skip' "$log" | head -1)" ;;
	*)
		echo "FAILED  $name: status $status"
		tail -20 "$log"
		failed=$((failed + 1))
		;;
	esac
	rm -rf "$work/part"
	[ ! -e "$work/part" ] || {
		echo "FAILED  $name: cannot be removed"
		exit 1
	}
}

# fio_job NAME OPTION…: writes, and reads back what it has written; each block names its place and has a checksum.
fio_job()
{
	part "fio $1" fio --name="$1" --directory=. --size=16m --numjobs=4 --verify=crc32c --verify_fatal=1 --verify_backlog=256 \
		--end_fsync=1 "${@:2}"
}

for p in "${parts[@]}"; do
	case $p in
	dbench)
		says='^Throughput'
		part "dbench, 8 clients" dbench -t $((6 * seconds)) -D . 8
		part "dbench, 8 clients, O_SYNC" dbench -s -t $((6 * seconds)) -D . 8
		;;
	fio)
		says='WRITE:'
		fio_job write --rw=write --bs=256k
		fio_job randwrite --rw=randwrite --bsrange=512-64k --bs_unaligned=1
		fio_job randrw --rw=randrw --bs=4k
		fio_job randrw-direct --rw=randrw --bs=4k --direct=1 --ioengine=libaio --iodepth=16
		fio_job write-direct --rw=write --bs=1m --direct=1 --ioengine=libaio --iodepth=4
		fio_job mmap --rw=randrw --bs=4k --ioengine=mmap
		fio_job fsync --rw=randwrite --bs=16k --fsync=8
		;;
	stress-ng)
		says=
		for s in "${stressors[@]}"; do
			part "stress-ng $s" stress-ng "--$s" 2 --timeout "$seconds" --verify --temp-path .
		done
		;;
	*)
		echo "no part is called $p" >&2
		failed=1
		;;
	esac
done
rm -rf "$work" "$log"
exit $((failed > 0))
