#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nfsrdma-exportd itself: each NFSv3 and MOUNT procedure by a client that also sends what it must not, over TCP, and where that
# makes a difference over RDMA too, through rdma_bridge.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

cases=$lib_dir/integration/exportd/cases.py
export PYTHONDONTWRITEBYTECODE=1

fresh_export()
{
	export=$T/export
	mkdir -p "$export"
	chmod 777 "$export"
}

bridge_is_ready()
{
	grep -qs '^port ' "$T/bridge.log" || process_ended "$bridge_pid"
}

# Sets bridge_pid, and tcp_port to a port that leads to the server's RDMA port.
start_bridge()
{
	rm -f "$T/bridge.log"
	"$build_dir/tests/integration/rdma_bridge" "$rdma_port" >"$T/bridge.log" 2>&1 &
	bridge_pid=$!
	wait_until 10 bridge_is_ready && tcp_port=$(sed -n 's/^port //p' "$T/bridge.log")
}

# run_cases CASE…: each with an export and a server of its own, on which it leaves what it likes. exportd_options are the
# server's.
run_cases()
{
	local name
	for name in "$@"; do
		echo "-- $name"
		rm -rf "$T/export"
		fresh_export
		# shellcheck disable=SC2034 # start_exportd takes it
		tcp_port='' rdma_port=''
		start_exportd "$export" --state "$T/state" "${exportd_options[@]}"
		[ -z "$over_rdma" ] || start_bridge || fail "no bridge: $(cat "$T/bridge.log")"
		EXPORTD_PID=$exportd_pid python3 "$cases" "$name" "$tcp_port" "$export" || fail "$name"
		[ -z "$over_rdma" ] || kill "$bridge_pid"
		stop_exportd "$exportd_pid"
	done
}
exportd_options=()
over_rdma=

test_rpc_and_mount()
{
	run_cases rpc_errors fragments_and_pipelining garbage_ends_the_connection_only mount_protocol
}

test_attributes()
{
	run_cases attributes setattr_ access fs_info
}

test_data()
{
	run_cases data set_id_bits_go_with_a_write owner_may_always_read_and_write a_change_of_mode_counts_at_once
}

test_names()
{
	run_cases create_and_remove exclusive_create special_names links special_files rename
}

test_listing()
{
	run_cases listing listing_survives_removal_of_what_was_listed dotdot_of_the_root_is_the_root
}

test_nothing_leads_outside()
{
	run_cases symbolic_links_are_not_followed a_directory_that_left_the_export_is_stale forged_handles
}

test_callers_rights()
{
	run_cases users_are_kept_apart sticky_and_groups root_is_squashed
	exportd_options=(--no-root-squash)
	run_cases root_is_root
	exportd_options=(--ro)
	run_cases read_only
}

test_duplicate_requests()
{
	run_cases duplicates_are_run_once duplicates_at_the_same_time
}

limits[many]=120
test_many()
{
	run_cases many_at_once removed_files_are_let_go
}

limits[over_rdma]=180
test_over_rdma()
{
	over_rdma=1
	run_cases attributes setattr_ access fs_info data set_id_bits_go_with_a_write owner_may_always_read_and_write \
		create_and_remove exclusive_create special_names links special_files rename listing \
		listing_survives_removal_of_what_was_listed symbolic_links_are_not_followed forged_handles \
		users_are_kept_apart sticky_and_groups root_is_squashed many_at_once mount_protocol
}

# A mount in the export whose daemon never answers: what looks at it waits for ever.
test_mount_point_below_the_export()
{
	fresh_export
	mkdir "$export/silent"
	python3 "$lib_dir/integration/exportd/silent_mount.py" "$export/silent" >"$T/silent" &
	local silent=$!
	wait_until 10 grep -q mounted "$T/silent" || fail "cannot mount"
	start_exportd "$export" --state "$T/state"
	local status=0
	timeout 30 python3 "$cases" mount_points "$tcp_port" "$export" || status=$?
	kill "$silent"
	wait "$silent" || true
	wait_until 10 is_not_mounted "$export/silent" || fail "the silent mount stays"
	assert_eq "$status" 0 "status of the case"
}

test_handles_survive_a_restart()
{
	fresh_export
	start_exportd "$export" --state "$T/state"
	python3 "$cases" before_restart "$tcp_port" "$export" "$T/handles"
	kill_exportd
	start_exportd "$export" --state "$T/state"
	python3 "$cases" after_restart "$tcp_port" "$export" "$T/handles"
	assert_eq "$(stat -c %a "$T/state/key")" 600 "mode of the key"
	stop_exportd "$exportd_pid"
	start_exportd "$export" --state "$T/other"
	python3 "$cases" after_restart_with_another_key "$tcp_port" "$export" "$T/handles"
}

# as_alice COMMAND…
as_alice()
{
	setpriv --reuid 12001 --regid 12001 --clear-groups "$@"
}

# The server as an ordinary user's program.
start_as_alice()
{
	install -d -o 12001 -g 12001 -m 700 "$T/alice"
	install -m 755 "$EXPORTD" "$T/exportd"
	cat >"$T/as_alice" <<-EOF
		#!/bin/sh
		exec setpriv --reuid 12001 --regid 12001 --clear-groups "$T/exportd" "\$@"
	EOF
	chmod 755 "$T/as_alice"
	EXPORTD=$T/as_alice start_exportd "$export" --state "$T/alice/state"
	grep -q 'will not survive a restart' "$exportd_log" || fail "it does not say that handles end with it"
}

test_ordinary_user()
{
	fresh_export
	start_as_alice
	EXPORTD_PID=$exportd_pid python3 "$cases" ordinary_user "$tcp_port" "$export"
}

test_table_of_paths()
{
	fresh_export
	chown 12001:12001 "$export"
	start_as_alice
	EXPORTD_PID=$exportd_pid python3 "$cases" table_of_paths "$tcp_port" "$export" "$T/handles"
	kill_exportd
	start_as_alice
	python3 "$cases" table_after_restart "$tcp_port" "$export" "$T/handles"
}

test_background()
{
	fresh_export
	"$EXPORTD" "$export" --state "$T/state" --rdma-port 0 --tcp-port 0 >"$T/out" 2>"$T/err" </dev/null || fail "status $?: $(cat "$T/err")"
	grep -q '^ready rdma=[0-9]* tcp=[0-9]*$' "$T/out" || fail "it does not say that it is ready: $(cat "$T/out")"
	local port pid
	port=$(sed 's/.*tcp=//' "$T/out")
	python3 "$cases" fs_info "$port" "$export"
	pid=$(pid_running "$EXPORTD" "$export") || fail "no server runs"
	kill -TERM "$pid"
	wait_until 10 process_ended "$pid" || fail "it does not end"
	"$EXPORTD" "$T/none" --state "$T/state" --rdma-port 0 --tcp-port 0 >"$T/out" 2>"$T/err" && fail "a directory that is missing is served"
	grep -q "$T/none" "$T/err" || fail "the directory that is missing is not named: $(cat "$T/err")"
}

test_man_page_has_every_option()
{
	local option count=0
	for option in $("$EXPORTD" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p'); do
		grep -qF -- "\\-\\-${option//-/\\-}" "$source_dir/docs/man/nfsrdma-exportd.8" || fail "the man page lacks --$option"
		count=$((count + 1))
	done
	[ "$count" -gt 5 ] || fail "--help lists $count options"
}

test_mount_port()
{
	fresh_export
	start_exportd "$export" --state "$T/state" --mount-port 0
	local mount_port
	mount_port=$(sed -n 's/^ready .* mount=//p' "$exportd_log")
	[ "$mount_port" -ne "$tcp_port" ] || fail "no port of its own: $(cat "$exportd_log")"
	python3 "$cases" mount_protocol "$mount_port" "$export"
}

tests_main "$@"
