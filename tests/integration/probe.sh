#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nfsrdma-probe: says of a server what a mount would find, ends with status 0 only when a mount has what it needs, and names
# the likely reason of what fails.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

# probe STATUS ARGUMENT…: its report goes to $T/report.
probe()
{
	local want=$1 status=0
	shift
	timeout 50 "$PROBE" "$@" >"$T/report" 2>"$T/err" </dev/null || status=$?
	echo "status $status [$*]"
	cat "$T/report" "$T/err"
	assert_eq "$status" "$want" "exit status of nfsrdma-probe $*"
}

# says PATTERN: a line of the report.
says()
{
	grep -qE -- "$1" "$T/report" || fail "the report has no line like '$1'"
}

says_not()
{
	! grep -qE -- "$1" "$T/report" || fail "the report has '$(grep -E -- "$1" "$T/report")'"
}

serve()
{
	export=$T/export
	mkdir -p "$export" "$T/second"
	start_exportd "$export" "$T/second" --no-root-squash
	at_server="port=$rdma_port,mountport=$tcp_port"
}

test_a_server_and_all_its_exports()
{
	serve
	probe 0 127.0.0.1 -o "$at_server,device=softiwarp"
	assert_eq "$(cat "$T/err")" "" "standard error"
	says "^server +127\.0\.0\.1"
	says "^exports +$export\$"
	says "^ +$T/second\$"
	says "^device +softiwarp: as asked"
	says "^memreg +window: "
	says "^connect +to 127\.0\.0\.1:$rdma_port in [0-9.]+ ms"
	says "^inline +4096 bytes to the server, 4096 from it"
	says "^credits +64 granted"
	says "^read depth +[1-9][0-9]* RDMA Reads"
	says "^windows +.*enforces their bounds"
	says "^invalidate +by the server: offered"
	says "^NULL +20 calls one by one: min [0-9.]+, median [0-9.]+, max [0-9.]+ ms"
	says "^export +$export\$"
	says "^export +$T/second\$"
	says "^  READ +up to 1048576 bytes"
	says "^  WRITE +up to 1048576 bytes"
	says "^result +a mount has what it needs"
	says_not FAILED
}

test_one_export()
{
	serve
	probe 0 "127.0.0.1:$T/second" -o "$at_server"
	says "^export +$T/second\$"
	says_not "^export +$export\$"
}

# What a mount would take, by the same options.
test_options_of_a_mount()
{
	serve
	probe 0 "127.0.0.1:$export" -o "$at_server,credits=8,inline=1024,memreg=persistent,rsize=65536,wsize=65536,arena=1M"
	says "^credits +8 granted"
	says "^inline +1024 bytes to the server, 1024 from it"
	says "^memreg +persistent: as asked; NOT safe"
	probe 0 "127.0.0.1:$export" -o "$at_server,memreg=dynamic"
	says "^memreg +dynamic: as asked"
	says "^invalidate +by the server: not offered"
	probe 1 "127.0.0.1:$export" -o "$at_server,arena=1M"
	says "^device +FAILED: .*arena="
}

test_no_such_export()
{
	serve
	probe 1 "127.0.0.1:$export-not" -o "$at_server"
	says "^mount +FAILED: .*$export-not"
	# All the rest is tried all the same.
	says "^NULL +20 calls"
	says "^result +a mount does not work"
}

test_refused_port()
{
	serve
	local port
	port=$(free_port)
	probe 1 "127.0.0.1:$export" -o "port=$port,mountport=$tcp_port,device=softiwarp"
	says "^connect +FAILED: to 127\.0\.0\.1:$port: Connection refused"
	says "^  likely +the server serves NFS, .*RoCE or InfiniBand only"
}

test_no_mount_service()
{
	serve
	local port
	port=$(free_port)
	probe 1 127.0.0.1 -o "port=$rdma_port,mountport=$port"
	says "^exports +FAILED: .*connection refused on TCP port $port"
	probe 1 "127.0.0.1:$export" -o "port=$rdma_port,mountport=$port"
	says "^mount +FAILED: .*connection refused on TCP port $port"
	says "^NULL +20 calls"
}

limits[servers_that_are_not_iwarp]=240
test_servers_that_are_not_iwarp()
{
	serve
	local how
	for how in closes talks echoes revision1; do
		other_server $how
		probe 1 "127.0.0.1:$export" -o "port=$other_port,mountport=$tcp_port,device=softiwarp"
		says "^connect +FAILED: to 127\.0\.0\.1:$other_port: .*MPA"
		says "^  likely +that port belongs to another service"
	done
	other_server rejects
	probe 1 "127.0.0.1:$export" -o "port=$other_port,mountport=$tcp_port,device=softiwarp"
	says "^  likely +the server speaks iWARP and refused"
	other_server silent
	probe 1 "127.0.0.1:$export" -o "port=$other_port,mountport=$tcp_port,device=softiwarp"
	says "^connect +FAILED: .*sent no MPA reply"
	says "^  likely +a firewall .*does not speak iWARP"
	stop_other_servers
}

test_unknown_host()
{
	probe 1 no-such-host.invalid
	says '^server +FAILED: .*no-such-host\.invalid'
}

test_verbs_without_a_device()
{
	[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] || skip "this machine has an RDMA device"
	serve
	probe 1 "127.0.0.1:$export" -o "$at_server,device=verbs"
	says "^device +FAILED: .*no RDMA device on the route"
	says "^  likely +this machine has no RDMA device"
	probe 0 "127.0.0.1:$export" -o "$at_server,device=auto"
	says "^device +softiwarp: no RDMA device is on the route"
	says "this machine has no RDMA device.*softiwarp reaches iWARP servers only"
}

test_arguments()
{
	local args
	for args in "" "a b" "127.0.0.1:relative" "127.0.0.1 -o nosuchoption" "127.0.0.1 -x" "-o port=1" "::1"; do
		# shellcheck disable=SC2086
		probe 2 $args
		assert_eq "$(cat "$T/report")" "" "report"
		grep -q '^nfsrdma-probe: ' "$T/err" || fail "says '$(cat "$T/err")' [$args]"
	done
	probe 0 --help
	says "^usage: nfsrdma-probe SERVER"
	probe 0 --version
	says '[0-9]\.[0-9]'
}

tests_main "$@"
