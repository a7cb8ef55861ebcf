#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nfsrdma and those who run it: what it says before, while and when it mounts, and what becomes of a mount when its terminal
# closes or the machine sleeps.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

serve()
{
	export=$T/export mnt=$T/mnt
	mkdir -p "$export" "$mnt"
	start_exportd "$export" --no-root-squash
}

# Whether it mounts or not, a dry run says the same as the mount would, and leaves nothing.
test_dry_run()
{
	serve
	mkdir "$export/sub"
	"$NFSRDMA" "$SERVER_ADDRESS:$export/sub" "$mnt" -o "$(mount_options nconnect=2,ro)" --dry-run >"$T/out" 2>"$T/err"
	cat "$T/out" "$T/err"
	assert_eq "$(cat "$T/err")" "" "standard error"
	grep -qx "would mount $SERVER_ADDRESS:$export/sub on $mnt, and has tried all but that:" "$T/out"
	grep -q '^  lanes  *2, ' "$T/out"
	grep -q '^  as  *type fuse.nfsrdma, options .*,ro' "$T/out"
	assert_eq "$(tail -1 "$T/out")" "nothing was mounted"
	is_not_mounted "$mnt" || fail "mounted"
	! daemon_pid "$mnt" || fail "a process is left"
	assert_fails "$NFSRDMA" "$SERVER_ADDRESS:$export/not" "$mnt" -o "$(mount_options)" --dry-run 2>"$T/err"
	grep -q "$export/not" "$T/err" || fail "says: $(cat "$T/err")"
}

# By the name that mount(8) calls, -f is its "fake".
test_mount_helper()
{
	serve
	ln -s "$NFSRDMA" "$T/mount.nfsrdma"
	"$T/mount.nfsrdma" "$SERVER_ADDRESS:$export" "$mnt" -f -o "rw,$(mount_options)" >"$T/out"
	grep -q '^would mount' "$T/out"
	is_not_mounted "$mnt" || fail "mounted"
	"$T/mount.nfsrdma" "$SERVER_ADDRESS:$export" "$mnt" -s -v -t nfsrdma -o "rw,nosuchoption,$(mount_options)" >"$T/log" 2>&1
	echo works >"$mnt/file"
	assert_eq "$(cat "$export/file")" works
	umount_nfs "$mnt"
}

# Who waits hears for what, in the background and in the foreground.
limits[what_takes_long_is_told]=120
test_what_takes_long_is_told()
{
	serve
	other_server silent
	local switch waiting=()
	for switch in -w -f; do
		timeout 60 "$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" $switch \
			-o "port=$rdma_port,mountport=$other_port" >"$T/err$switch" 2>&1 </dev/null &
		waiting+=($!)
	done
	for switch in -w -f; do
		assert_fails wait "${waiting[0]}"
		waiting=("${waiting[@]:1}")
		cat "$T/err$switch"
		grep -q "^nfsrdma: still asking server $SERVER_ADDRESS for $export ([0-9]* s)$" "$T/err$switch" || fail "no word with $switch"
		assert_eq "$(grep -vc '^nfsrdma: still ' "$T/err$switch")" 1 "further lines with $switch"
	done
	stop_other_servers
}

# in_terminal COMMAND…: starts it in a terminal of its own, as its session's leader; says its pid and closes the terminal when
# it is told to by the end of its input.
in_terminal()
{
	python3 -c '
import os, pty, sys, threading
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
print(pid, flush=True)
def drain():
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
threading.Thread(target=drain, daemon=True).start()
sys.stdin.read()
os._exit(0)' "$@"
}

# start_terminal COMMAND…: in $T/terminal.pid its pid; end_terminal closes it.
start_terminal()
{
	mkfifo "$T/terminal"
	in_terminal "$@" <"$T/terminal" >"$T/terminal.pid" &
	terminal_pid=$!
	exec 7>"$T/terminal"
}

end_terminal()
{
	exec 7>&-
	wait "$terminal_pid"
	rm "$T/terminal"
}

# A daemon has left the terminal; in the foreground its end unmounts, and everything is saved.
test_the_terminal_closes()
{
	serve
	start_terminal "$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" -o "$(mount_options)"
	# When the command has returned; before, it ends with its terminal.
	has_returned()
	{
		[ -s "$T/terminal.pid" ] && process_ended "$(cat "$T/terminal.pid")"
	}
	wait_until 20 has_returned || fail "does not return"
	is_mounted "$mnt" || fail "not mounted"
	local pid
	end_terminal
	echo on >"$mnt/file"
	assert_eq "$(cat "$export/file")" on
	umount_nfs "$mnt"
	start_terminal "$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" -f -o "$(mount_options)"
	wait_until 20 is_mounted "$mnt" || fail "not mounted in the foreground"
	pattern_file "$T/in" 5000000 terminal
	cp "$T/in" "$mnt/large"
	pid=$(daemon_pid "$mnt")
	end_terminal
	wait_until 30 process_ended "$pid" || fail "the terminal has closed, and the process in its foreground goes on"
	wait_until 5 is_not_mounted "$mnt" || fail "the mount is left"
	cmp "$T/in" "$export/large"
}

# Nothing is mounted yet: nothing is left.
test_the_terminal_closes_too_soon()
{
	serve
	other_server silent
	start_terminal "$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" -o "port=$rdma_port,mountport=$other_port"
	starts()
	{
		daemon_pid "$mnt" >/dev/null
	}
	ends()
	{
		! daemon_pid "$mnt" >/dev/null
	}
	wait_until 20 starts || fail "does not start"
	end_terminal
	wait_until 20 ends || fail "a process is left"
	is_not_mounted "$mnt" || fail "mounted"
	stop_other_servers
}

# As the service manager: what is told goes to $T/told, a line each.
start_manager()
{
	python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
with open(sys.argv[2], "w", buffering=1) as f:
    while True:
        print(s.recv(4096).decode(), file=f)' "$T/notify" "$T/told" &
	manager_pid=$!
	wait_until 10 test -S "$T/notify" || fail "no socket"
}

is_told()
{
	grep -q "$1" "$T/told"
}

# A machine that goes down unmounts, and then tells whoever still runs to end: what is not saved yet has its chance.
test_a_signal_after_the_unmount()
{
	serve
	start_manager
	NOTIFY_SOCKET=$T/notify "$NFSRDMA" "$SERVER_ADDRESS:$export" "$mnt" -f -o "$(mount_options)" >"$T/nfsrdma.log" 2>&1 </dev/null &
	local pid=$! status=0 writer
	wait_until 20 is_told READY=1 || fail "not ready"
	is_mounted "$mnt" || fail "ready and not mounted"
	python3 -c '
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, bytes(100000))
open(sys.argv[2], "w").close()
time.sleep(600)' "$mnt/file" "$T/written" &
	writer=$!
	wait_until 20 test -e "$T/written" || fail "nothing was written"
	kill_exportd
	umount -l "$mnt"
	# The end of a process does not wait for what the close has to do.
	kill -KILL "$writer"
	wait_until 20 is_told STOPPING=1 || fail "the unmount is not noticed"
	kill -TERM "$pid"
	says_that_it_saves()
	{
		grep -q 'unmounted already; what is not saved is being saved' "$T/nfsrdma.log"
	}
	wait_until 20 says_that_it_saves || fail "says: $(cat "$T/nfsrdma.log")"
	start_exportd "$export" --no-root-squash
	wait "$pid" || status=$?
	assert_eq "$status" 0 "exit status when all was saved"
	assert_eq "$(stat -c %s "$export/file")" 100000 "bytes that were saved"
	kill "$manager_pid"
}

# What sleep is to a process: it stands still, and when it goes on the server has forgotten its connections.
test_a_machine_that_slept()
{
	serve_and_mount nconnect=2
	pattern_file "$T/in" 3000000 sleep
	cp "$T/in" "$mnt/before"
	local pid
	pid=$(daemon_pid "$mnt")
	freeze "$pid"
	kill_exportd
	cp "$T/in" "$mnt/across" &
	local writer=$!
	start_exportd "$export" --no-root-squash
	kill -CONT "$pid"
	wait "$writer" || fail "what was written across the sleep failed"
	drop_caches "$mnt"
	cmp "$T/in" "$mnt/before"
	cmp "$T/in" "$export/across"
}

tests_main "$@"
