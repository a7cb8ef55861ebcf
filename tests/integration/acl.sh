#!/bin/bash
# SPDX-License-Identifier: MIT
#
# POSIX ACLs: shown and set through the mount, obeyed by it as by a local file system, and what happens where there are none.
# The server's own directory is the measure: what is done there with a local file system must come out the same in the mount.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

facl()
{
	python3 "$lib_dir/facl.py" "$@"
}

# refuses ERRNO COMMAND…: facl COMMAND fails with it.
refuses()
{
	local want=$1 got
	shift
	got=$(facl "$@" 2>&1) && fail "facl $* succeeded: $got"
	assert_eq "$got" "$want" "errno of facl $*"
}

# counted WHAT: calls of that procedure; or requests, what the kernel has asked.
counted()
{
	"$STAT" "$mnt" --json >"$T/stat" || fail "nfsrdma-stat failed"
	python3 -c '
import json, sys
stat = json.load(sys.stdin)
what = sys.argv[1]
print(sum(lane["fuse"][what] for lane in stat["lanes"]) if what == "requests" else stat["procs"][what]["calls"])' "$1" <"$T/stat"
}

# A change that the server's clock does not tell from the one before is not seen; NFS has nothing else to go by.
server_clock_ticks()
{
	touch "$export/.tick"
	[ "$(stat -c %.9Z "$export/.tick")" != "$(stat -c %.9Z "$1")" ]
}

limits[set_get_and_remove]=180
test_set_get_and_remove()
{
	serve_and_mount
	local acl=u::rw-,u:$alice:r--,u:$bob:rw-,g::r--,g:$team:rwx,m::rw-,o::--- other
	echo x >"$mnt/file"
	chmod 640 "$mnt/file"
	assert_eq "$(facl get "$mnt/file")" none
	assert_eq "$(facl list "$mnt/file")" ""
	facl set "$mnt/file" $acl
	assert_eq "$(facl get "$mnt/file")" $acl
	assert_eq "$(facl get "$export/file")" $acl "at the server"
	assert_eq "$(facl list "$mnt/file")" system.posix_acl_access
	assert_eq "$(stat -c %a "$mnt/file")" 660 "the mode, whose group bits are the mask"
	other=u::rwx,g::r-x,g:$team:r--,m::r-x,o::r-x
	wait_until 5 server_clock_ticks "$export/file"
	facl set "$mnt/file" $other
	assert_eq "$(facl get "$mnt/file")" $other
	# What says no more than a mode is a mode.
	facl set "$mnt/file" u::rw-,g::r--,o::r--
	assert_eq "$(facl get "$mnt/file") $(stat -c %a "$mnt/file") $(facl get "$export/file")" "none 644 none"
	facl set "$mnt/file" $acl
	facl remove "$mnt/file"
	assert_eq "$(facl get "$mnt/file") $(stat -c %a "$mnt/file") $(facl get "$export/file")" "none 660 none"
	facl remove "$mnt/file"

	# A directory has two, and each is set without the other.
	mkdir "$mnt/dir"
	facl set-default "$mnt/dir" $acl
	assert_eq "$(facl get "$mnt/dir") $(facl get-default "$mnt/dir")" "none $acl"
	facl set "$mnt/dir" $other
	assert_eq "$(facl get "$mnt/dir") $(facl get-default "$mnt/dir")" "$other $acl"
	assert_eq "$(facl get "$export/dir") $(facl get-default "$export/dir")" "$other $acl" "at the server"
	assert_eq "$(facl list "$mnt/dir")" "system.posix_acl_access system.posix_acl_default"
	facl remove "$mnt/dir"
	assert_eq "$(facl get "$mnt/dir") $(facl get-default "$mnt/dir")" "none $acl"
	facl set-default "$mnt/dir" u::rwx,g::r-x,o::---
	assert_eq "$(facl get-default "$mnt/dir")" u::rwx,g::r-x,o::---
	facl remove-default "$mnt/dir"
	assert_eq "$(facl get-default "$mnt/dir") $(facl get-default "$export/dir")" "none none"
}

limits[what_cannot_be_set]=180
test_what_cannot_be_set()
{
	serve_and_mount
	echo x >"$mnt/file"
	ln -s file "$mnt/link"
	chown $alice "$mnt/file"
	refuses EACCES set-default "$mnt/file" u::rwx,g::r-x,o::---
	facl remove-default "$mnt/file"
	refuses EINVAL set "$mnt/file" u::rwx,g::r-x # no others
	refuses EINVAL set "$mnt/file" u::rwx,u:$bob:r--,g::r-x,o::--- # no mask
	refuses EINVAL set "$mnt/file" g::r-x,u::rwx,o::---
	assert_eq "$(facl get "$mnt/file")" none
	# Whose file it is not.
	status=0
	as $bob python3 "$lib_dir/facl.py" set "$mnt/file" u::rwx,u:$bob:rwx,g::r-x,m::rwx,o::--- 2>"$T/error" || status=$?
	assert_eq "$status $(cat "$T/error")" "1 EPERM"
	as $alice python3 "$lib_dir/facl.py" set "$mnt/file" u::rw-,u:$bob:r--,g::---,m::r--,o::---
	assert_eq "$(facl get "$export/file")" u::rw-,u:$bob:r--,g::---,m::r--,o::---
	# Other names than those of ACLs.
	python3 - "$mnt/file" <<-'EOF'
		import errno, os, sys
		for what in (lambda: os.setxattr(sys.argv[1], "user.x", b"y"), lambda: os.getxattr(sys.argv[1], "user.x"),
		             lambda: os.removexattr(sys.argv[1], "user.x"), lambda: os.setxattr(sys.argv[1], "trusted.x", b"y")):
		    try:
		        what()
		    except OSError as e:
		        assert e.errno == errno.EOPNOTSUPP, e
		    else:
		        raise AssertionError("succeeded")
	EOF
}

# may WHO r|w|x FILE: what the kernel lets him do, not what it says.
may()
{
	case $2 in
	r) as "$1" cat "$3" >/dev/null 2>&1 ;;
	w) as "$1" sh -c ": >>'$3'" 2>/dev/null ;;
	x) as "$1" ls -d "$3/." >/dev/null 2>&1 ;;
	esac
}

# rights FILE: of alice and of bob, twice, for the answers come from the server and then from caches. What open(2) lets him do,
# and what access(2) says of it.
rights()
{
	python3 - "$1" $alice $bob <<-'EOF'
		import os, sys
		path, *users = sys.argv[1:]
		def rights(user):
		    os.setgroups([])
		    os.setresgid(user, user, user)
		    os.setresuid(user, user, user)
		    out = ""
		    for letter, flags, mode in (("r", os.O_RDONLY, os.R_OK), ("w", os.O_WRONLY, os.W_OK)):
		        try:
		            os.close(os.open(path, flags))
		            out += letter
		        except PermissionError:
		            out += "-"
		        out += letter if os.access(path, mode) else "-"
		    return out
		for user in users * 2:
		    ours, his = os.pipe()
		    if os.fork() == 0:
		        os.write(his, rights(int(user)).encode())
		        os._exit(0)
		    os.close(his)
		    print(os.read(ours, 16).decode(), end=" ")
	EOF
}

# Each ACL on a file of root's, in the mount and in the server's directory beside it. Linux does not look at an ACL whose mask
# is empty: who is named is one of the others then.
limits[who_wins]=180
test_who_wins()
{
	serve_and_mount
	mkdir -m 755 "$export/local"
	local acl want got
	while read -r acl want; do
		echo x >"$mnt/file"
		echo x >"$export/local/file"
		facl set "$mnt/file" "$acl"
		facl set "$export/local/file" "$acl"
		got=$(rights "$mnt/file")
		assert_eq "$got" "$(rights "$export/local/file")" "rights by $acl"
		assert_eq "$got" "$want $want " "rights by $acl"
		rm "$mnt/file" "$export/local/file"
	done <<-EOF
		u::rw-,g::---,o::--- ---- ----
		u::rw-,u:$bob:rw-,g::---,m::rw-,o::--- ---- rrww
		u::rw-,u:$bob:rw-,g::---,m::r--,o::--- ---- rr--
		u::rw-,u:$bob:rw-,g::---,m::---,o::rw- rrww rrww
		u::rw-,u:$bob:---,g::rw-,m::rw-,o::rw- rrww ----
		u::rw-,g::---,g:$alice:rw-,g:$bob:r--,m::rw-,o::--- rrww rr--
		u::rw-,u:$bob:r--,g::---,g:$bob:rw-,m::rw-,o::--- ---- rr--
	EOF
}

test_directories_that_only_an_acl_opens()
{
	serve_and_mount
	mkdir -m 700 "$mnt/dir"
	echo x >"$mnt/dir/file"
	chmod 644 "$mnt/dir/file"
	facl set "$mnt/dir" u::rwx,u:$bob:--x,g::---,m::--x,o::---
	may $bob r "$mnt/dir/file" || fail "bob does not get through a directory that he may search"
	assert_fails as $bob ls "$mnt/dir"
	assert_fails as $alice cat "$mnt/dir/file"
	facl set "$mnt/dir" u::rwx,u:$bob:rwx,g::---,m::rwx,o::---
	as $bob touch "$mnt/dir/new"
	as $bob ls "$mnt/dir" >/dev/null
	assert_fails as $alice touch "$mnt/dir/hers"
	# Taken away, and everything is in the caches.
	facl remove "$mnt/dir"
	chmod 700 "$mnt/dir"
	! may $bob r "$mnt/dir/file" || fail "bob still gets through"
	assert_fails as $bob touch "$mnt/dir/new2"
}

test_chmod_sets_the_mask()
{
	serve_and_mount
	echo x >"$mnt/file"
	facl set "$mnt/file" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::---
	may $bob w "$mnt/file" || fail "bob may not write"
	chmod 640 "$mnt/file"
	assert_eq "$(facl get "$mnt/file")" u::rw-,u:$bob:rw-,g::r--,m::r--,o::---
	! may $bob w "$mnt/file" || fail "bob still writes"
	may $bob r "$mnt/file" || fail "bob may not read"
	chmod 600 "$mnt/file"
	! may $bob r "$mnt/file" || fail "bob still reads"
	chmod 664 "$mnt/file"
	assert_eq "$(facl get "$mnt/file")" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::r--
	may $bob w "$mnt/file" || fail "bob may not write again"
}

# make_all DIR: of everything some in it, whose modes a umask and a default ACL have a say in.
make_all()
{
	python3 - "$1" <<-'EOF'
		import os, stat, sys
		os.chdir(sys.argv[1])
		def made(path, flags, mode):
		    os.close(os.open(path, flags | os.O_CREAT, mode))
		for umask in (0, 0o22, 0o77, 0o777):
		    os.umask(umask)
		    for mode in (0o666, 0o777, 0o640, 0o4711):
		        name = f"{mode:o}.{umask:o}"
		        made("open." + name, os.O_WRONLY, mode)
		        made("excl." + name, os.O_RDWR | os.O_EXCL, mode)
		        os.mknod("mknod." + name, stat.S_IFREG | mode)
		        os.mkfifo("fifo." + name, mode)
		        os.mkdir("mkdir." + name, mode)
		    os.mkdir(f"setgid.{umask:o}")
		    os.chmod(f"setgid.{umask:o}", 0o2751)
		    os.symlink("target", f"link.{umask:o}")
		os.umask(0o22)
		made("mkdir.777.0/below", os.O_WRONLY, 0o666)
		os.mkdir("mkdir.777.22/below")
	EOF
}

default_acls_and_umask()
{
	local acl n=0
	for acl in none u::rwx,g::r-x,o::--- u::rw-,u:$bob:rwx,g::r-x,m::rwx,o::--- u::r-x,u:$bob:rwx,g::rwx,g:$team:r--,m::r--,o::rwx; do
		n=$((n + 1))
		mkdir -m 755 "$mnt/$n" "$export/local.$n"
		if [ "$acl" != none ]; then
			facl set-default "$mnt/$n" "$acl"
			facl set-default "$export/local.$n" "$acl"
		fi
		make_all "$mnt/$n"
		make_all "$export/local.$n"
		facl tree "$export/local.$n" >"$T/local"
		[ "$(wc -l <"$T/local")" -gt 70 ] || fail "nothing to compare with"
		diff "$T/local" <(facl tree "$mnt/$n") || fail "by $acl, the mount shows other rights"
		diff "$T/local" <(facl tree "$export/$n") || fail "by $acl, other rights at the server"
	done
}

limits[default_acls_and_umask]=180
test_default_acls_and_umask()
{
	serve_and_mount
	default_acls_and_umask
}

limits[on_a_tmpfs]=180
test_on_a_tmpfs()
{
	export=$T/export
	mkdir "$export"
	mount -t tmpfs -o mode=755 tmpfs "$export"
	serve_and_mount nconnect=2
	default_acls_and_umask
	facl set "$mnt/1" u::rwx,u:$bob:--x,g::---,m::--x,o::---
	assert_eq "$(facl get "$export/1")" u::rwx,u:$bob:--x,g::---,m::--x,o::---
	# More entries than a FUSE mount can show: they are not left out.
	echo x >"$export/long"
	chown $alice "$export/long"
	facl many "$export/long" u::rw-,g::r--,m::rw-,o::r-- 600
	refuses E2BIG get "$mnt/long"
	may $alice r "$mnt/long" || fail "the owner may not read"
	! may $bob r "$mnt/long" || fail "bob reads under an ACL that is not known here"
	umount_nfs "$mnt"
	stop_exportd "$exportd_pid"
	umount "$export"
}

# Names that are made in a directory cost no call more than one for the directory.
test_a_directory_is_asked_once()
{
	serve_and_mount
	mkdir "$mnt/dir" "$mnt/with"
	facl set-default "$mnt/with" u::rwx,u:$bob:rwx,g::r-x,m::rwx,o::---
	local dir before
	for dir in dir with; do
		: >"$mnt/$dir/first"
		before=$(counted GETACL)
		python3 - "$mnt/$dir" <<-'EOF'
			import os, sys
			for i in range(100):
			    os.close(os.open(f"{sys.argv[1]}/file{i}", os.O_CREAT | os.O_WRONLY, 0o666))
			    os.mkdir(f"{sys.argv[1]}/dir{i}")
			    os.unlink(f"{sys.argv[1]}/file{i}")
		EOF
		# Attributes are believed for 30 s; a busy machine may take longer than that.
		[ $(($(counted GETACL) - before)) -le 5 ] || fail "$(($(counted GETACL) - before)) GETACLs for 200 names in $dir"
	done
}

# Extended attributes make the kernel ask for security.capability before a write.
test_writes_ask_for_no_attributes()
{
	serve_and_mount
	: >"$mnt/file"
	local before
	before=$(counted requests)
	python3 - "$mnt/file" <<-'EOF'
		import os, sys
		fd = os.open(sys.argv[1], os.O_WRONLY)
		for _ in range(200):
		    os.write(fd, b"x")
	EOF
	[ $(($(counted requests) - before)) -lt 250 ] || fail "$(($(counted requests) - before)) requests for 200 writes"
}

test_changes_of_others_are_seen()
{
	serve_and_mount acregmin=1,acregmax=1,acdirmin=1,acdirmax=1
	echo x >"$export/file"
	chmod 600 "$export/file"
	! may $bob r "$mnt/file" || fail "bob reads"
	wait_until 5 server_clock_ticks "$export/file"
	facl set "$export/file" u::rw-,u:$bob:r--,g::---,m::r--,o::---
	wait_until 10 may $bob r "$mnt/file" || fail "an ACL that was set elsewhere is not seen"
	assert_eq "$(facl get "$mnt/file")" u::rw-,u:$bob:r--,g::---,m::r--,o::---
	wait_until 5 server_clock_ticks "$export/file"
	facl set "$export/file" u::rw-,u:$alice:r--,g::---,m::r--,o::--- # the mode stays
	wait_until 10 may $alice r "$mnt/file" || fail "another ACL of the same mode is not seen"
	! may $bob r "$mnt/file" || fail "bob still reads"
}

# Cached ACLs may grant here what the server no longer does.
test_the_server_has_the_last_word()
{
	serve_and_mount actimeo=3600
	echo x >"$mnt/file"
	facl set "$mnt/file" u::rw-,u:$bob:r--,g::---,m::r--,o::---
	may $bob r "$mnt/file" || fail "bob may not read"
	wait_until 5 server_clock_ticks "$export/file"
	facl set "$export/file" u::rw-,u:$alice:r--,g::---,m::r--,o::---
	umount_nfs "$mnt"
	mount_nfs "$export" "$mnt" noacl
	# Without ACLs here the mode alone is looked at: it refuses what only the ACL grants.
	! may $alice r "$mnt/file" || fail "alice reads, though the mode's bits do not let her"
	facl set "$export/file" u::rw-,u:$alice:---,g::r--,m::r--,o::r--
	umount_nfs "$mnt"
	mount_nfs "$export" "$mnt" noacl
	# And the mode's bits grant nothing that the ACL denies.
	may $bob r "$mnt/file" || fail "bob may not read"
	! may $alice r "$mnt/file" || fail "alice reads what the ACL denies her"
}

# without_acls GETACLS: a mount without them, which has asked so often, and hardly hears of extended attributes any more.
without_acls()
{
	local before
	mkdir "$mnt/dir"
	echo x >"$mnt/file"
	(umask 027; : >"$mnt/masked")
	assert_eq "$(stat -c %a "$mnt/masked")" 640
	refuses EOPNOTSUPP set "$mnt/file" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::---
	facl get "$mnt/file" >/dev/null 2>&1 || true
	facl list "$mnt/file" >/dev/null 2>&1 || true
	before=$(counted requests)
	python3 - "$mnt/file" <<-'EOF'
		import errno, os, sys
		for i in range(100):
		    for what in (os.getxattr, lambda f, n: os.setxattr(f, n, b"\2\0\0\0")):
		        for name in ("system.posix_acl_access", "user.x"):
		            try:
		                what(sys.argv[1], name)
		            except OSError as e:
		                assert e.errno in (errno.EOPNOTSUPP, errno.ENODATA), e
		            else:
		                assert what is not os.getxattr, name
	EOF
	# The lookups of the programs' own, and their attributes.
	[ $(($(counted requests) - before)) -lt 50 ] || fail "the kernel asks us: $(($(counted requests) - before)) requests for 400 calls"
	assert_eq "$(counted GETACL)" "$1" "GETACLs"
	assert_eq "$(counted SETACL)" 0 "SETACLs"
	as $alice cat "$mnt/file" >/dev/null
}

test_noacl()
{
	serve_and_mount noacl
	without_acls 0
}

test_a_server_without_nfsacl()
{
	EXPORTD_OPTIONS+=" --no-acl"
	serve_and_mount
	without_acls 1
}

test_a_server_that_no_longer_has_nfsacl()
{
	serve_and_mount actimeo=1
	echo x >"$mnt/file"
	chmod 644 "$mnt/file"
	facl set "$mnt/file" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::r--
	kill_exportd
	start_exportd "$export" --no-root-squash --no-acl
	# For the next one who asks.
	wait_until 30 gets_none "$mnt/file" || fail "$(facl get "$mnt/file" 2>&1)"
	may $alice r "$mnt/file" || fail "alice may not read"
	(umask 027; : >"$mnt/masked")
	assert_eq "$(stat -c %a "$mnt/masked")" 640
	refuses EOPNOTSUPP set "$mnt/file" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::---
}

gets_none()
{
	local got
	got=$(facl get "$1" 2>&1) || true
	[ "$got" = none ] || [ "$got" = EOPNOTSUPP ]
}

test_long_acls()
{
	serve_and_mount
	local short=u::rw-,g::r--,m::rw-,o::---
	echo x >"$mnt/file"
	chown $alice "$mnt/file"
	facl many "$mnt/file" $short 290
	assert_eq "$(facl get "$mnt/file")" "$(facl get "$export/file")"
	assert_eq "$(facl get "$mnt/file" | tr , '\n' | wc -l)" 294
	refuses E2BIG many "$mnt/file" $short 400
	refuses E2BIG many "$mnt/file" $short 600
	assert_eq "$(facl get "$mnt/file" | tr , '\n' | wc -l)" 294
}

# Set at the server; the reply is longer than a page.
test_the_longest_acls()
{
	serve_and_mount
	echo x >"$mnt/file"
	chown $alice "$mnt/file"
	facl many "$export/file" u::rw-,g::r--,m::rw-,o::--- 480
	wait_until 100 has_entries "$mnt/file" 484 || fail "$(facl get "$mnt/file" | wc -c)"
}

has_entries()
{
	as $alice touch "$1"
	[ "$(facl get "$1" | tr , '\n' | wc -l)" = "$2" ]
}

# What people use: coreutils, rsync, and the programs of the package acl.
limits[programs]=180
test_programs()
{
	serve_and_mount
	mkdir -p "$export/tree/dir"
	echo x >"$export/tree/file"
	echo y >"$export/tree/dir/plain"
	facl set "$export/tree/file" u::rw-,u:$bob:rw-,g::r--,m::rw-,o::---
	facl set "$export/tree/dir" u::rwx,g::r-x,g:$team:rwx,m::rwx,o::---
	facl set-default "$export/tree/dir" u::rwx,u:$bob:r-x,g::r-x,m::r-x,o::---
	facl tree "$export/tree" >"$T/want"
	cp -a "$mnt/tree" "$mnt/copy"
	diff "$T/want" <(facl tree "$export/copy") || fail "cp -a within the mount loses something"
	cp -a "$mnt/tree" "$T/out"
	diff "$T/want" <(facl tree "$T/out") || fail "cp -a out of the mount loses something"
	rsync -aA "$T/out/" "$mnt/back"
	diff "$T/want" <(facl tree "$export/back") || fail "rsync -A into the mount loses something"
	rsync -aAni --checksum "$mnt/tree/" "$mnt/back/" >"$T/differs"
	assert_eq "$(cat "$T/differs")" "" "what rsync finds to do"

	(cd "$mnt" && getfacl -nR tree) >"$T/shown"
	(cd "$export" && getfacl -nR tree) | diff - "$T/shown" || fail "getfacl shows something else than at the server"
	setfacl -m u:$alice:r,g:$team:rw "$mnt/tree/dir/plain"
	setfacl -x u:$bob "$mnt/tree/file"
	setfacl -k "$mnt/tree/dir"
	(cd "$mnt" && getfacl -nR tree) >"$T/shown"
	(cd "$export" && getfacl -nR tree) | diff - "$T/shown" || fail "getfacl shows something else than at the server"
	setfacl -Rb "$mnt/tree"
	assert_eq "$(getfacl -nRs "$export/tree" 2>&1)" "" "what is left after setfacl -b"
	(cd "$mnt" && setfacl --restore="$T/shown")
	(cd "$export" && getfacl -nR tree) | diff - "$T/shown" || fail "setfacl --restore loses something"
	cp -a "$T/out" "$mnt/again"
	mv "$mnt/again" "$T/moved"
	diff "$T/want" <(facl tree "$T/moved") || fail "mv out of the mount loses something"
}

tests_main "$@"
