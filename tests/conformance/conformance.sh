#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The conformance suite on mounts of exportd, and first on this machine's own file systems, to see that the suite is right.
# By itself, on whatever is mounted somewhere: build/tests/conformance/conformance DIR.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

conform()
{
	local status=0
	"$build_dir/tests/conformance/conformance" "$1" >"$T/out" 2>&1 || status=$?
	cat "$T/out"
	[ "$status" -eq 0 ] || fail "$(grep -c '^not ok' "$T/out") cases: $(sed -n 's/^not ok \([^:]*\).*/\1/p' "$T/out" | tr '\n' ' ')"
}

# A server on a tmpfs, which keeps nothing on a disk, and its mount with the given options.
conform_on_mount_of_tmpfs()
{
	export=$T/export
	mkdir "$export"
	mount -t tmpfs -o mode=755 tmpfs "$export"
	serve_and_mount "$1"
	conform "$mnt"
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	umount "$export"
}

test_local_disk()
{
	conform "$T"
}

test_local_tmpfs()
{
	mkdir "$T/tmpfs"
	mount -t tmpfs -o mode=755 tmpfs "$T/tmpfs"
	conform "$T/tmpfs"
	umount "$T/tmpfs"
}

limits[mount_of_disk]=180
test_mount_of_disk()
{
	serve_and_mount
	conform "$mnt"
}

limits[mount_with_four_lanes]=120
test_mount_with_four_lanes()
{
	conform_on_mount_of_tmpfs nconnect=4
}

limits[mount_without_caches]=120
test_mount_without_caches()
{
	conform_on_mount_of_tmpfs noac,lookupcache=none,nordirplus,sync
}

tests_main "$@"
