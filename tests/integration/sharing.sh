#!/bin/bash
# SPDX-License-Identifier: MIT
#
# More than one: two mounts of the same export, two users of the same mount, a mount inside what it shows.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

two_mounts()
{
	export=$T/export a=$T/a b=$T/b
	mkdir "$export"
	start_exportd "$export" --no-root-squash
	mount_nfs "$export" "$a" "${1:-}"
	mount_nfs "$export" "$b" "${1:-}"
}

# NFS tells files apart in time by their ctime: two changes within one tick of the server's clock look like one.
server_clock_ticks()
{
	touch "$export/.tick"
	[ "$(stat -c %.9Z "$export/.tick")" != "$(stat -c %.9Z "$1")" ]
}

test_closed_files_are_seen_both_ways()
{
	two_mounts
	local i from to
	from=$a to=$b
	echo start >"$a/file"
	for i in $(seq 40); do
		wait_until 5 server_clock_ticks "$export/file"
		# The same length each second time, so that the size does not give the change away.
		printf 'round %02d %s' "$i" "$(head -c $(((i - i % 2) * 97 % 9000)) /dev/zero | tr '\0' x)" >"$from/file"
		cmp "$from/file" "$to/file"
		[ "$from" = "$a" ] && from=$b to=$a || from=$a to=$b
	done
	# A change in the middle, and a truncation.
	pattern_file "$a/big" 3000000 big
	cmp "$a/big" "$b/big"
	wait_until 5 server_clock_ticks "$export/big"
	printf 'in the middle' | dd of="$b/big" bs=1 seek=1500000 conv=notrunc status=none
	assert_eq "$(dd if="$a/big" bs=1 skip=1500000 count=13 status=none)" "in the middle"
	cmp "$a/big" "$b/big"
	wait_until 5 server_clock_ticks "$export/big"
	truncate -s 1234567 "$a/big"
	assert_eq "$(wc -c <"$b/big")" 1234567
	cmp "$a/big" "$export/big"
}

# Somebody else makes and fills the file that an open with O_CREAT is about to make.
test_two_create_one_file()
{
	serve_and_mount
	python3 - "$mnt" "$export" <<-'EOF'
		import multiprocessing, os, sys
		turn = multiprocessing.Value("i", -1)
		def make(directory, i, flags):
		    return os.open(f"{directory}/file{i}", os.O_CREAT | os.O_WRONLY | flags)
		def other():
		    for i in range(400):
		        while turn.value < i:
		            pass
		        fd = make(sys.argv[2], i, 0)
		        for _ in range(200):
		            os.write(fd, b"x")
		        os.close(fd)
		p = multiprocessing.Process(target=other, daemon=True)
		p.start()
		for i in range(400):
		    turn.value = i
		    for _ in range(i % 40 * 30):
		        pass
		    os.close(make(sys.argv[1], i, os.O_APPEND))
		p.join()
		assert p.exitcode == 0
	EOF
}

test_noac_shows_changes_to_who_has_the_file_open()
{
	two_mounts noac
	printf before >"$a/file"
	exec 7<"$b/file"
	assert_eq "$(dd bs=3 count=1 status=none <&7)" bef
	wait_until 5 server_clock_ticks "$export/file"
	printf AFTER. | dd of="$a/file" conv=notrunc status=none
	assert_eq "$(python3 -c 'import os; print(os.pread(7, 3, 0).decode())')" AFT
	exec 7<&-
}

limits[fsx_across_two_mounts]=120
test_fsx_across_two_mounts()
{
	# Attributes are not cached, for fsx changes a file more than once in a tick of the server's clock.
	two_mounts noac
	local seed ops=600
	[ "$SCALE" = small ] && ops=200
	for seed in 11 12; do
		python3 "$lib_dir/integration/fsx.py" --seed "$seed" --ops "$ops" --max-bytes 100000 "$a/file" "$b/file"
	done
}

# Seconds of random work: RANDOM_SECONDS=600 for the long run by hand, which needs TIME_FACTOR=10, too.
random_seconds()
{
	if [ "$SCALE" = small ]; then
		echo 5
	else
		echo "${RANDOM_SECONDS:-10}"
	fi
}

limits[random_work_of_several_processes]=90
test_random_work_of_several_processes()
{
	serve_and_mount nconnect=4
	python3 "$lib_dir/integration/fsx_many.py" shared --seconds "$(random_seconds)" --seed "${RANDOM_SEED:-1}" --workers 6 "$mnt"
}

limits[random_work_that_two_mounts_hand_over]=90
test_random_work_that_two_mounts_hand_over()
{
	two_mounts nconnect=2
	python3 "$lib_dir/integration/fsx_many.py" handover --seconds "$(random_seconds)" --seed "${RANDOM_SEED:-1}" --workers 6 \
		--server "$export" "$a" "$b"
}

test_names_are_seen_both_ways()
{
	two_mounts acregmin=1,acregmax=1,acdirmin=1,acdirmax=1
	[ ! -e "$b/new" ]
	ls "$b" >/dev/null
	echo x >"$a/new"
	wait_until 10 test -e "$b/new" || fail "a new name is not seen"
	assert_eq "$(cat "$b/new")" x
	mv "$a/new" "$a/renamed"
	wait_until 10 test -e "$b/renamed" || fail "the new name of a file is not seen"
	wait_until 10 test ! -e "$b/new" || fail "the old name of a file is still seen"
	exec 7<"$b/renamed"
	mkdir "$a/dir"
	mv "$a/renamed" "$a/dir/deep"
	assert_eq "$(cat <&7)" x "an open file that was renamed elsewhere"
	exec 7<&-
	rm -r "$a/dir"
	wait_until 10 test ! -e "$b/dir" || fail "a removed directory is still seen"
}

test_file_removed_elsewhere_while_open()
{
	two_mounts
	pattern_file "$a/file" 3000000 stale
	exec 7<"$b/file"
	rm "$a/file"
	# Either the data, or an error; never other data and never waiting.
	local status=0
	timeout 20 cat <&7 >"$T/got" 2>/dev/null || status=$?
	exec 7<&-
	[ "$status" -ne 124 ] || fail "the reader hangs"
	[ "$status" -ne 0 ] || assert_eq "$(stat -c %s "$T/got")" 3000000
	[ ! -e "$a/file" ]
}

test_two_users_are_kept_apart()
{
	serve_and_mount
	chmod 1777 "$mnt"
	as $alice sh -c "umask 077; mkdir '$mnt/private'; echo secret >'$mnt/private/file'; echo own >'$mnt/own'"
	assert_eq "$(stat -c %u:%g:%a "$export/private/file")" "$alice:$alice:600" "owner of what alice made"
	# Now everything is in the caches: names, attributes and data.
	as $alice sh -c "ls -la '$mnt/private'; cat '$mnt/private/file' '$mnt/own'" >/dev/null
	assert_fails as $bob ls "$mnt/private"
	assert_fails as $bob cat "$mnt/private/file"
	assert_fails as $bob stat "$mnt/private/file"
	assert_fails as $bob cat "$mnt/own"
	assert_fails as $bob sh -c "echo x >>'$mnt/own'"
	assert_fails as $bob rm -f "$mnt/own"
	assert_fails as $bob touch "$mnt/private/new"
	assert_fails as $bob chmod 777 "$mnt/own"
	as $bob sh -c "! test -r '$mnt/own' && ! test -w '$mnt/own' && ! test -x '$mnt/private'" || fail "access(2) promises too much"
	as $alice sh -c "test -r '$mnt/own' && test -w '$mnt/own' && test -x '$mnt/private'" || fail "access(2) promises too little"
	assert_eq "$(as $alice cat "$mnt/private/file")" secret
	# What the server allows as soon as it allows it.
	as $alice chmod 644 "$mnt/own"
	assert_eq "$(as $bob cat "$mnt/own")" own
}

test_supplementary_groups_count()
{
	serve_and_mount
	mkdir "$mnt/team"
	chgrp $team "$mnt/team"
	chmod 2770 "$mnt/team"
	as $alice true
	setpriv --reuid $alice --regid $alice --groups 64599,$team,64601 sh -c "echo shared >'$mnt/team/file'"
	assert_eq "$(stat -c %u:%g "$export/team/file")" "$alice:$team" "owner and group"
	chmod 640 "$mnt/team/file"
	assert_eq "$(setpriv --reuid $bob --regid $bob --groups $team cat "$mnt/team/file")" shared
	assert_fails as $bob cat "$mnt/team/file"
}

test_privileges_dropped_after_open()
{
	serve_and_mount
	chmod 1777 "$mnt"
	python3 - "$mnt/file" $alice $bob <<-'EOF'
		import os, sys
		alice, bob = int(sys.argv[2]), int(sys.argv[3])
		os.setgroups([])
		os.setresgid(alice, alice, 0)
		os.setresuid(alice, alice, 0)
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
		os.seteuid(0)
		os.setresuid(bob, bob, bob)
		assert os.pwrite(fd, b"written as another", 0) == 18
		os.ftruncate(fd, 7)
		os.fsync(fd)
		os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		assert os.pread(fd, 100, 0) == b"written"
		os.close(fd)
		try:
		    os.open(sys.argv[1], os.O_RDONLY)
		except PermissionError:
		    pass
		else:
		    raise AssertionError("bob opened alice's file")
	EOF
	assert_eq "$(stat -c %u "$export/file")" $alice
	assert_eq "$(cat "$export/file")" written
}

test_export_contains_its_own_mount()
{
	mkdir -p "$T/top/mnt" "$T/top/other"
	echo beside >"$T/top/file"
	start_exportd "$T/top" --no-root-squash
	mount_nfs "$T/top" "$T/top/mnt"
	timeout 20 ls -la "$T/top/mnt" >"$T/list" 2>&1 || true
	grep -q ' other$' "$T/list" || fail "ls does not list what lies beside: $(cat "$T/list")"
	local status=0
	timeout 20 find "$T/top" >"$T/find" 2>&1 || status=$?
	[ "$status" -lt 124 ] || fail "find hangs"
	grep -qx "$T/top/mnt/file" "$T/find" || fail "find does not find what lies beside"
	status=0
	timeout 20 ls -la "$T/top/mnt/mnt/" >"$T/list" 2>&1 || status=$?
	[ "$status" -lt 124 ] || fail "looking at the mount through itself hangs"
	echo new >"$T/top/mnt/other/new"
	assert_eq "$(cat "$T/top/other/new")" new
	echo changed >"$T/top/other/new2"
	assert_eq "$(timeout 20 cat "$T/top/mnt/other/new2")" changed
}

tests_main "$@"
