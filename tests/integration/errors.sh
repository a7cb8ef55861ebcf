#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Bad input: one clear line, a status other than 0, and nothing left behind: no mount, no process.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

serve()
{
	export=$T/export
	mkdir -p "$export" "$T/mnt"
	start_exportd "$export" --no-root-squash
}

nothing_runs()
{
	! daemon_pid "$1" >/dev/null
}

# refused PATTERN ARGUMENT…: nfsrdma with these arguments must fail with one line that matches the pattern.
refused()
{
	local pattern=$1 status=0
	shift
	timeout 40 "$NFSRDMA" "$@" >"$T/out" 2>"$T/err" </dev/null || status=$?
	echo "status $status: $(cat "$T/err") [$*]"
	[ "$status" -ne 0 ] || fail "nfsrdma $* succeeded"
	[ "$status" -lt 124 ] || fail "nfsrdma $* ended with status $status"
	# A word about what takes long is none too many.
	sed -i '/^nfsrdma: still /d' "$T/err"
	assert_eq "$(wc -l <"$T/err")" 1 "lines said by nfsrdma $*"
	assert_eq "$(cat "$T/out")" "" "standard output of nfsrdma $*"
	grep -qiE -- "$pattern" "$T/err" || fail "nfsrdma $* says '$(cat "$T/err")', which does not match $pattern"
	assert_eq "$(mounts_below "$T")" "" "mounts after nfsrdma $*"
	wait_until 10 nothing_runs "$T/mnt" || fail "a process is left of nfsrdma $*"
}

at_server()
{
	echo "port=$rdma_port,mountport=$tcp_port${1:+,$1}"
}

test_unknown_host()
{
	mkdir "$T/mnt"
	refused 'no-such-host\.invalid' no-such-host.invalid:/export "$T/mnt" -o retry=0
}

test_refused_port()
{
	serve
	local port
	port=$(free_port)
	refused "$port" "127.0.0.1:$export" "$T/mnt" -o "port=$port,mountport=$tcp_port,retry=0"
	refused "$port" "127.0.0.1:$export" "$T/mnt" -o "port=$rdma_port,mountport=$port,retry=0"
}

limits[server_that_is_not_iwarp]=240
test_server_that_is_not_iwarp()
{
	serve
	local how
	for how in closes talks echoes rejects revision1 silent; do
		other_server $how
		refused "127\.0\.0\.1.*$other_port|iwarp|mpa" "127.0.0.1:$export" "$T/mnt" -o "port=$other_port,mountport=$tcp_port,retry=0"
	done
	stop_other_servers
}

limits[mountport_that_is_not_rpc]=120
test_mountport_that_is_not_rpc()
{
	serve
	local how
	for how in closes talks silent; do
		other_server $how
		refused "$other_port|mount" "127.0.0.1:$export" "$T/mnt" -o "port=$rdma_port,mountport=$other_port,retry=0"
	done
	stop_other_servers
}

test_no_such_export()
{
	serve
	refused "$export-not" "127.0.0.1:$export-not" "$T/mnt" -o "$(at_server)"
	refused '/' "127.0.0.1:/" "$T/mnt" -o "$(at_server)"
}

test_permission_denied()
{
	serve
	# An ordinary user may mount only where he may write.
	mkdir "$T/bin"
	cp "$NFSRDMA" "$T/bin/nfsrdma"
	local status=0
	setpriv --reuid 64531 --regid 64531 --clear-groups timeout 40 "$T/bin/nfsrdma" "127.0.0.1:$export" "$T/mnt" \
		-o "$(at_server)" >"$T/out" 2>"$T/err" </dev/null || status=$?
	cat "$T/err"
	[ "$status" -ne 0 ] || fail "mounted"
	[ "$status" -lt 124 ] || fail "status $status"
	grep -qiE 'permission|access' "$T/err" || fail "does not speak of permission: $(cat "$T/err")"
	assert_eq "$(wc -l <"$T/err")" 1 "lines"
	! is_mounted "$T/mnt" || fail "mounted all the same"
}

limits[bad_options]=240
test_bad_options()
{
	serve
	local option
	for option in nosuchoption nosuchoption=1 rsize=abc rsize=-1 rsize=4096x rsize= wsize=99999999999999999999 port=70000 port=x \
		vers=4 vers=4.2 nfsvers=2 proto=tcp proto=udp tcp udp sec=krb5 sec=krb5p mountvers=1 \
		nconnect=0 nconnect=100000 nconnect=x timeo=0 timeo=x retrans=-1 memreg=fast memreg=fmr device=ib device= \
		arena=x arena=1 arena=0 credits=0 credits=x inline=0 inline=1 lookupcache=some local_lock=some acregmin=x actimeo=-5; do
		refused "${option%%=*}" "127.0.0.1:$export" "$T/mnt" -o "$(at_server "$option")"
	done
}

test_nfs_options_that_we_lack()
{
	serve
	local option
	for option in fsc migration clientaddr=10.0.0.1 xprtsec=tls bg trunkdiscovery max_connect=4 namlen=200; do
		refused "${option%%=*}" "127.0.0.1:$export" "$T/mnt" -o "$(at_server "$option")"
	done
}

test_mountpoint_missing()
{
	serve
	rmdir "$T/mnt"
	refused "$T/mnt" "127.0.0.1:$export" "$T/mnt" -o "$(at_server)"
	: >"$T/mnt"
	refused "$T/mnt.*director" "127.0.0.1:$export" "$T/mnt" -o "$(at_server)"
}

test_mountpoint_busy()
{
	serve
	mount_nfs "$export" "$T/mnt"
	local status=0
	timeout 40 "$NFSRDMA" "127.0.0.1:$export" "$T/mnt" -o "$(at_server)" >"$T/out" 2>"$T/err" </dev/null || status=$?
	cat "$T/err"
	[ "$status" -ne 0 ] || fail "mounted a second time"
	[ "$status" -lt 124 ] || fail "status $status"
	assert_eq "$(wc -l <"$T/err")" 1 "lines"
	grep -q "$T/mnt" "$T/err" || fail "the line does not name the mount point"
	assert_eq "$(awk -v dir="$T/mnt" '$5 == dir' /proc/self/mountinfo | wc -l)" 1 "mounts there"
	echo works >"$T/mnt/file"
	assert_eq "$(cat "$export/file")" works
}

test_malformed_arguments()
{
	mkdir "$T/mnt"
	refused 'server:/|usage' just-a-word "$T/mnt"
	refused 'server:/|usage|export' 127.0.0.1: "$T/mnt"
	refused 'server|usage|host' :/export "$T/mnt"
	refused 'mount ?point|usage' 127.0.0.1:/export
	refused 'usage|server:/'
	refused 'export|relative|absolute|server:/' 127.0.0.1:relative "$T/mnt"
}

# Ctrl-C while it tries again and again.
test_interrupted_before_the_mount()
{
	local dir=/run/nfsrdma pid
	[ "$(id -u)" = 0 ] || dir=$XDG_RUNTIME_DIR/nfsrdma
	mkdir "$T/mnt"
	"$NFSRDMA" 127.0.0.1:/ "$T/mnt" -f -o "mountport=$(free_port),retry=1" &
	pid=$!
	waits_for_the_server()
	{
		[ "$(awk '/^SigIgn:/ {print $2}' "/proc/$pid/status")" != 0000000000000000 ] && [ -n "$(find "/proc/$pid/fd" -lname '*eventfd*')" ]
	}
	wait_until 10 waits_for_the_server || fail "it does not try"
	kill -TERM "$pid"
	wait_until 10 process_ended "$pid" || fail "it goes on after SIGTERM"
	wait "$pid" || true
	[ ! -e "$dir/.starting.$pid" ] || fail "a file for its counters is left"
}

test_help_and_version()
{
	"$NFSRDMA" --help >"$T/out" 2>"$T/err"
	local option
	for option in port rsize wsize nconnect memreg arena device; do
		grep -q "$option" "$T/out" || fail "--help does not speak of $option"
	done
	"$NFSRDMA" --version | grep -q '[0-9]\.[0-9]' || fail "--version says no version"
}

test_exportd_bad_input()
{
	local args status
	for args in "" "$T/none" "relative" "$T --listen nowhere.invalid" "$T --rdma-port 99999" "$T --no-such-option" "$T --device tape"; do
		status=0
		# shellcheck disable=SC2086
		timeout 20 "$EXPORTD" $args -f >"$T/out" 2>"$T/err" </dev/null || status=$?
		echo "status $status: $(cat "$T/err") [$args]"
		[ "$status" -ne 0 ] || fail "nfsrdma-exportd $args succeeded"
		[ "$status" -lt 124 ] || fail "nfsrdma-exportd $args ended with status $status"
		[ -s "$T/err" ] || fail "nfsrdma-exportd $args says nothing"
	done
	serve
	timeout 20 "$EXPORTD" "$T" --rdma-port "$rdma_port" --tcp-port 0 -f >"$T/out" 2>"$T/err" && fail "two servers on one port"
	grep -q "$rdma_port" "$T/err" || fail "the line does not name the port: $(cat "$T/err")"
}

tests_main "$@"
