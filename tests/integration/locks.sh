#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Locks on the server, against a lock manager that does what it is told (lock_server.py): what is asked of it when, grants and
# cancels that cross, answers that are none, restarts. Against the kernel's: tests/vm/vm.sh locks.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

# Once more in a network and a /run of the test's own: rpcbind has fixed places.
in_private()
{
	[ "$(id -u)" = 0 ] || skip "not root"
	[ -z "${PRIVATE:-}" ] || return 0
	PRIVATE=1 exec unshare --net --mount --propagation private bash "$lib_script" --one "$test_name"
}

tell()
{
	told=$((${told:-0} + 1))
	echo "$told $*" >"$T/control"
	wait_until 20 grep -qx "done $told" "$T/server.log" || fail "the lock server does not do: $*"
}

server_has_seen()
{
	grep -qE -- "$1" "$T/server.log"
}

# awaits PATTERN: a line of what has been said to the lock server.
awaits()
{
	wait_until 40 server_has_seen "$1" || fail "never came: $1"
}

mount_log_has()
{
	grep -qE -- "$1" "$mount_log"
}

mount_says()
{
	wait_until 40 mount_log_has "$1" || fail "the mount never says: $1"
}

held_are()
{
	: >"$T/server.held"
	tell locks
	sed -n 's/^held: *//p' "$T/server.log" | tail -1 >"$T/server.held"
	[ "$(cat "$T/server.held")" = "$1" ]
}

# server_holds WORDS: in the end that is what the server thinks is locked.
server_holds()
{
	wait_until 40 held_are "$1" || fail "the server has locks '$(cat "$T/server.held")', not '$1'"
}

is_up()
{
	is_mounted "$mnt" || process_ended "$mount_pid"
}

lock_server_is_ready()
{
	server_has_seen '^ready'
}

# In a network and a /run of its own: sets export and mnt, which are there then.
enter_private()
{
	in_private
	ip link set lo up
	mount -t tmpfs -o mode=755 tmpfs /run
	export=$T/export mnt=$T/mnt
	mkdir -p "$export" "$mnt"
}

start_lock_server()
{
	enter_private
	mkfifo "$T/control"
	: >"$T/server.log"
	python3 "$lib_dir/integration/lock_server.py" "$T/control" "$T/server.log" &
	lock_server_pid=$!
	wait_until 20 lock_server_is_ready || fail "the lock server does not come up"
	start_exportd "$export" --no-root-squash --listen 127.0.0.2
}

# mount_locked [OPTIONS]: in the foreground, for its log.
mount_locked()
{
	mount_log=$T/nfsrdma.log
	"$NFSRDMA" "127.0.0.2:$export" "$mnt" -d -o "port=$rdma_port,mountport=$tcp_port,${1:-lock}" >"$mount_log" 2>&1 </dev/null &
	mount_pid=$!
	wait_until 20 is_up || fail "not mounted"
	is_mounted "$mnt" || fail "mount failed: $(tail -3 "$mount_log")"
}

serve_locks()
{
	start_lock_server
	mount_locked "${1:-}"
	touch "$mnt/file"
}

done_with_locks()
{
	umount_nfs "$mnt"
	kill "$lock_server_pid"
	wait "$lock_server_pid" || true
}

test_locks_are_the_servers()
{
	serve_locks
	server_has_seen '^MON 127.0.0.2 100021 4 16' || fail "the status monitor was not asked"
	server_has_seen '^SET 100021 4 tcp' || fail "not registered for TCP"
	server_has_seen '^SET 100021 4 udp' || fail "not registered for UDP"
	locker a "$mnt/file" fcntl ex 10 20
	locker_says a held
	server_holds "10-29w"
	assert_eq "$(try_lock "$mnt/file" fcntl sh 29 1)" denied "a lock in the way"
	assert_eq "$(try_lock "$mnt/file" fcntl sh 30 1)" held "a lock beside it"
	assert_eq "$(try_lock "$mnt/file" flock sh)" denied "flock against fcntl"
	assert_eq "$(try_lock "$mnt/file" test | cut -d' ' -f1-4)" "ex 10 20 ${locker_pid[a]}" "F_GETLK"
	locker_ends a
	server_holds ""
	locker b "$mnt/file" flock ex
	locker_says b held
	server_holds "0-endw"
	locker_ends b
	server_holds ""
	locker c "$mnt/file" ofd sh 5 1
	locker_says c held
	locker_ends c
	server_holds ""
	done_with_locks
	server_has_seen '^UNMON 127.0.0.2' || fail "the status monitor watches on"
	server_has_seen '^UNSET 100021 4 tcp' || fail "still registered"
}

# As fcntl(2) has it: what is unlocked is cut out, and closing any descriptor of the file lets go of all of it.
test_ranges_and_close()
{
	serve_locks
	mkfifo "$T/go"
	python3 - "$mnt/file" "$T" <<-'EOF' &
		import fcntl, sys
		f, g = open(sys.argv[1], "r+b"), open(sys.argv[1], "r+b")
		go = open(sys.argv[2] + "/go")
		fcntl.lockf(f, fcntl.LOCK_EX, 100, 0)
		fcntl.lockf(f, fcntl.LOCK_SH, 20, 40)
		fcntl.lockf(f, fcntl.LOCK_UN, 10, 45)
		fcntl.lockf(f, fcntl.LOCK_UN, 10, 45)
		go.readline()
		g.close()
		go.readline()
	EOF
	local python=$!
	exec 8>"$T/go"
	server_holds "0-39w 40-44r 55-59r 60-99w"
	assert_eq "$(grep -c '^UNLOCK' "$T/server.log")" 1 "UNLOCKs: the second had nothing to unlock"
	echo close >&8
	server_holds ""
	exec 8>&-
	wait "$python"
	done_with_locks
}

test_grants_by_callback()
{
	serve_locks
	local kind
	for kind in msg call udp; do
		tell grant $kind
		tell rival hold 0 99
		locker a "$mnt/file" fcntl ex 50 100 wait
		awaits '^LOCK ex 50 149 new wait 3'
		tell rival drop
		locker_says a held
		awaits "^grant $kind answered"
		server_holds "50-149w"
		locker_ends a
		server_holds ""
		sed -n 's/.*GRANTED_RES/earlier GRANTED_RES/p' "$T/server.log" >"$T/earlier"
		cat "$T/earlier" >"$T/server.log"
	done
	server_has_seen '^earlier GRANTED_RES grant 0' || fail "GRANTED_MSG was not answered by a call"
	! server_has_seen '^grant .* answered 1' || fail "a grant was denied"
	done_with_locks
}

test_grant_before_the_reply()
{
	serve_locks
	tell rival hold 0 0
	tell late
	locker a "$mnt/file" fcntl ex wait
	awaits '^LOCK ex 0 9223372036854775807 new wait 3'
	awaits '^grant call answered 0'
	locker_says a held
	tell rival drop
	server_holds "0-endw"
	locker_ends a
	server_holds ""
	done_with_locks
}

test_grant_that_never_comes()
{
	serve_locks
	tell grant none
	tell rival hold 0 9
	locker a "$mnt/file" fcntl ex 0 20 wait
	mount_says 'a lock is waited for'
	tell rival drop
	locker_says a held
	server_holds "0-19w"
	! server_has_seen '^grant ' || fail "the server has granted it after all"
	locker_ends a
	server_holds ""
	done_with_locks
}

test_interrupted_wait()
{
	serve_locks
	tell rival hold 0 9
	locker a "$mnt/file" fcntl ex 0 20 wait
	mount_says 'a lock is waited for'
	kill -USR1 "${locker_pid[a]}"
	locker_says a interrupted
	server_has_seen '^CANCEL of a wait' || fail "no CANCEL"
	locker_ends a
	tell rival drop
	server_holds ""
	done_with_locks
}

# Whichever comes first: who was interrupted holds nothing beyond what he held.
test_grant_crosses_cancel()
{
	serve_locks
	tell rival hold 40 49
	locker a "$mnt/file" fcntl ex 0 100 wait
	mount_says 'a lock is waited for'
	tell cross
	kill -USR1 "${locker_pid[a]}"
	locker_says a interrupted
	awaits '^CANCEL crossed by a grant'
	tell rival drop
	server_holds ""
	locker_ends a
	done_with_locks
}

test_killed_wait()
{
	serve_locks
	tell rival hold 0 9
	locker a "$mnt/file" flock ex wait
	mount_says 'a lock is waited for'
	tell answer silent
	kill -KILL "${locker_pid[a]}"
	wait "${locker_pid[a]}" || true
	tell rival drop
	server_holds ""
	locker_ends a
	done_with_locks
}

limits[answers_that_are_none]=180
test_answers_that_are_none()
{
	serve_locks
	local how
	for how in cut long fragment close noise; do
		tell answer $how
		assert_eq "$(try_lock "$mnt/file" fcntl ex)" "$([ $how = cut ] && echo EIO || echo held)" "a lock whose answer is: $how"
		awaits "^answered LOCK $how"
		server_holds ""
	done
	tell answer status
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" ENOLCK "a lock whose answer has a status that is none"
	tell rival hold 0 9
	for how in cut noise close status; do
		tell answer $how
		case $how in
		cut) assert_eq "$(try_lock "$mnt/file" test)" EIO "F_GETLK whose answer is: $how" ;;
		status) assert_eq "$(try_lock "$mnt/file" test)" ENOLCK "F_GETLK whose answer has a status that is none" ;;
		*) assert_eq "$(try_lock "$mnt/file" test | cut -d' ' -f1-3)" "ex 0 10" "F_GETLK whose answer is: $how" ;;
		esac
		awaits "^answered TEST $how"
	done
	tell rival drop
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" held "afterwards"
	server_holds ""
	done_with_locks
}

# The wrong XID is nobody's answer, silence is none: the connection is made anew, and the call sent again.
limits[calls_are_sent_again]=120
test_calls_are_sent_again()
{
	serve_locks
	tell answer xid
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" held "a lock whose answer is another's"
	tell answer silent
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" held "a lock whose answer is not sent"
	server_holds ""
	done_with_locks
}

test_soft_mount_gives_up()
{
	start_lock_server
	mount_locked lock,soft,timeo=10,retrans=0
	touch "$mnt/file"
	tell answer silent
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" EIO "a lock whose answer is not sent"
	server_holds ""
	done_with_locks
}

test_restart_reclaims()
{
	serve_locks
	locker a "$mnt/file" fcntl ex 0 10
	locker_says a held
	locker b "$mnt/file" fcntl sh 50 10
	locker_says b held
	tell restart
	awaits '^LOCK ex 0 9 reclaim try 0'
	awaits '^LOCK sh 50 59 reclaim try 0'
	server_holds "0-9w 50-59r"
	mount_says 'locks on the server: 2 are held again, 0 are lost'
	tell grace off
	locker_ends a
	locker_ends b
	server_holds ""
	done_with_locks
}

test_lost_lock_is_named()
{
	serve_locks
	locker a "$mnt/file" fcntl ex 0 10
	locker b "$mnt/file" fcntl ex 20 10
	locker_says a held
	locker_says b held
	tell restart late 0 9
	mount_says "a lock of process ${locker_pid[a]} is lost"
	mount_says 'locks on the server: 1 are held again, 1 are lost'
	locker_ends a
	locker_ends b
	tell rival drop
	server_holds ""
	done_with_locks
}

# A connection that just ends is no restart, but it might be one.
test_status_monitors_word()
{
	serve_locks
	locker a "$mnt/file" fcntl ex 0 10
	locker_says a held
	tell forge 3
	server_holds "0-9w"
	! mount_log_has 'has restarted' || fail "a word that is not the status monitor's was believed"
	tell notify 3
	mount_says 'the status monitor says that the server has restarted'
	awaits '^LOCK ex 0 9 reclaim try 4'
	awaits '^LOCK ex 0 9 new try 0'
	mount_says 'locks on the server: 1 are held again, 0 are lost'
	locker_ends a
	server_holds ""
	done_with_locks
}

test_unlocked_while_it_is_reclaimed()
{
	serve_locks
	locker a "$mnt/file" fcntl ex 0 10
	locker_says a held
	tell slow
	tell notify 3
	awaits '^LOCK ex 0 9 reclaim try 4'
	locker_ends a
	awaits '^UNLOCK'
	tell go
	mount_says 'locks on the server: 0 are held again, 0 are lost'
	server_holds ""
	done_with_locks
}

test_waits_go_on_after_a_restart()
{
	serve_locks
	tell rival hold 0 99
	locker a "$mnt/file" fcntl ex 0 10 wait
	mount_says 'a lock is waited for'
	locker b "$mnt/file" fcntl ex 200 10
	locker_says b held
	tell restart
	awaits '^LOCK ex 0 9 new wait 4'
	tell grace off
	locker_says a held
	locker_ends a
	locker_ends b
	server_holds ""
	done_with_locks
}

test_another_lock_manager_is_registered()
{
	start_lock_server
	tell service 0
	mount_locked
	touch "$mnt/file"
	mount_says 'note: another lock manager'
	tell grant none
	tell rival hold 0 9
	locker a "$mnt/file" fcntl ex 0 20 wait
	mount_says 'a lock is waited for'
	tell rival drop
	locker_says a held
	locker_ends a
	server_holds ""
	done_with_locks
	! server_has_seen '^UNSET' || fail "the other was unregistered"
}

# As the kernel does with its first mount that has locks.
test_another_lock_manager_takes_over()
{
	serve_locks
	tell service 0
	tell grant none
	tell rival hold 0 9
	locker a "$mnt/file" fcntl ex 0 20 wait
	mount_says 'another lock manager has taken our place'
	tell rival drop
	locker_says a held
	locker_ends a
	server_holds ""
	: >"$T/server.log"
	done_with_locks
	! server_has_seen '^UNSET' || fail "the other was unregistered"
}

# What a mount left that was killed.
test_stale_registration_is_replaced()
{
	start_lock_server
	tell service 1
	mount_locked
	touch "$mnt/file"
	server_has_seen '^SET 100021 4 tcp' || fail "not registered"
	tell rival hold 0 9
	locker a "$mnt/file" fcntl ex 0 20 wait
	mount_says 'a lock is waited for'
	tell rival drop
	locker_says a held
	locker_ends a
	done_with_locks
}

test_local_lock_chooses()
{
	start_lock_server
	mount_locked local_lock=flock
	touch "$mnt/file"
	locker a "$mnt/file" flock ex
	locker_says a held
	server_holds ""
	assert_eq "$(try_lock "$mnt/file" flock sh)" denied "a local flock"
	assert_eq "$(try_lock "$mnt/file" fcntl ex)" held "fcntl beside it"
	server_has_seen '^LOCK ex 0' || fail "fcntl was not the server's"
	locker_ends a
	umount_nfs "$mnt"
	: >"$T/server.log"
	mount_locked local_lock=posix
	locker b "$mnt/file" fcntl ex
	locker_says b held
	assert_eq "$(try_lock "$mnt/file" fcntl sh)" denied "a local fcntl lock"
	! server_has_seen '^LOCK' || fail "fcntl was not local"
	assert_eq "$(try_lock "$mnt/file" flock ex)" held "flock beside it"
	server_has_seen '^LOCK ex 0' || fail "flock was not the server's"
	locker_ends b
	done_with_locks
}

# With a lock one sees what others have written, however long caches may last, and they what we have.
test_locks_are_where_caches_meet()
{
	serve_locks lock,actimeo=3600
	printf 'old content' >"$mnt/file"
	python3 - "$mnt/file" "$export/file" <<-'EOF'
		import fcntl, mmap, os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		assert os.pread(fd, 100, 0) == b"old content"
		with open(sys.argv[2], "r+b") as other:
		    other.write(b"new")
		    other.flush()
		    other.seek(0, 2)
		    other.write(b" and more")
		assert os.pread(fd, 11, 0) == b"old content", "nothing was cached: the test shows nothing"
		fcntl.lockf(fd, fcntl.LOCK_EX)
		got = os.pread(fd, 100, 0)
		assert got == b"new content and more", got
		assert os.fstat(fd).st_size == 20
		m = mmap.mmap(fd, 0)
		m[0:3] = b"map"
		fcntl.lockf(fd, fcntl.LOCK_UN)
		assert open(sys.argv[2], "rb").read() == b"map content and more", "unlocked before it was written"
	EOF
	done_with_locks
}

test_what_lock_needs()
{
	enter_private
	start_exportd "$export" --listen 127.0.0.2
	local status=0
	"$NFSRDMA" "127.0.0.2:$export" "$mnt" -o "port=$rdma_port,mountport=$tcp_port,lock" >"$T/out" 2>&1 </dev/null || status=$?
	cat "$T/out"
	assert_eq "$status" 1 "exit status without rpcbind"
	assert_eq "$(wc -l <"$T/out")" 1 "lines"
	grep -q 'rpcbind is not running.*start it.*nolock' "$T/out" || fail "the cure is not named"
}

tests_main "$@"
