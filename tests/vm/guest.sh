#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What runs inside the guest that tests/vm/vm.sh boots: one row, named in /host/row. /host is shared with the machine that
# runs the guest; what the row has found goes to /host/out:
#
#	status		0 when the row has passed; absent when the guest did not come so far
#	dmesg		the kernel's log, which must hold no complaint of what took part
#
# A row is a function row_NAME: it sets up devices and a server, mounts, works in the mount, unmounts. Everything that fails
# ends it. Addresses: 10.9.0.1 and fd09::1 are of a dummy interface that rxe or siw sits on, so both ends of a connection are
# this guest.

set -euo pipefail

work='' pjdfstests='' vm_scale=''
# shellcheck source=/dev/null
. /host/env
export NFSRDMA=/host/bin/nfsrdma EXPORTD=/host/bin/nfsrdma-exportd PROBE=/host/bin/nfsrdma-probe STAT=/host/bin/nfsrdma-stat
export LOGS=/host/out/logs T=/tmp/row
# ORDER: start_exportd and its like are those of lib.sh, which come last.
# shellcheck source=knfsd.sh
. /host/tests/vm/knfsd.sh
# shellcheck source=../lib.sh
. /host/tests/lib.sh

address=10.9.0.1
address6=fd09::1
source=$address:/exp # what nfsrdma and nfsrdma-probe are told to mount
read -r row_name row_args </host/row

# --- devices ----------------------------------------------------------------------------------------------------------

# Of ib_uverbs and rdma_cm, the one that was loaded last is told first of a device that is removed.
modules="ib_uverbs rdma_ucm"

dummy()
{
	modprobe dummy numdummies=0
	ip link add d0 type dummy
	ip addr add $address/24 dev d0
	ip link set d0 mtu 4200 up
	ip addr add $address6/64 dev d0 nodad
	# shellcheck disable=SC2086 # a list
	modprobe -a $modules
}

# rxe finds its GIDs from the interface's addresses, a moment after it is made.
has_gid()
{
	grep -q "$2\$" "/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null
}

rxe_link()
{
	rdma link add rxe0 type rxe netdev d0
	wait_until 10 has_gid rxe0 ffff:0a09:0001 || fail "rxe0 has no GID of $address"
	wait_until 10 has_gid rxe0 fd09:0000:0000:0000:0000:0000:0000:0001 || fail "rxe0 has no GID of $address6"
}

siw_link()
{
	rdma link add siw0 type siw netdev d0
}

rxe_up()
{
	dummy
	modprobe rdma_rxe
	rxe_link
}

siw_up()
{
	dummy
	modprobe siw
	siw_link
}

# --- servers ----------------------------------------------------------------------------------------------------------

# The kernel's NFS server on /exp.
knfsd()
{
	mkdir -p /exp
	mount -t tmpfs -o size=1500m,mode=755 tmpfs /exp
	knfsd_start
	exportfs -o rw,async,no_root_squash,no_subtree_check,fsid=1,insecure '*:/exp'
}

# --- mounts -----------------------------------------------------------------------------------------------------------

# mount_ours OPTIONS: $source, by nfsrdma, at /mnt.
mount_ours()
{
	mkdir -p /mnt
	timeout 60 "$NFSRDMA" "$source" /mnt -o "$1" >"$T/nfsrdma.log" 2>&1 </dev/null ||
		fail "mount failed: $(tail -3 "$T/nfsrdma.log")"
	cat "$T/nfsrdma.log"
	is_mounted /mnt || fail "nfsrdma said yes, but /mnt is not mounted"
}

# probe STATUS OPTIONS PATTERN…: nfsrdma-probe ends so, and its report has a line like each pattern.
probe()
{
	local want=$1 options=$2 status=0 pattern
	shift 2
	timeout 60 "$PROBE" "$source" -o "$options" >"$T/report" 2>&1 </dev/null || status=$?
	cat "$T/report"
	assert_eq "$status" "$want" "exit status of nfsrdma-probe -o $options"
	for pattern; do
		grep -qE -- "$pattern" "$T/report" || fail "nfsrdma-probe -o $options has no line like '$pattern'"
	done
}

# mount_kernel OPTIONS: exportd, by the kernel's client, at /mnt.
mount_kernel()
{
	mkdir -p /mnt
	modprobe nfs
	timeout 60 mount -t nfs -o "vers=3,nolock,mountproto=tcp,mountport=$tcp_port,$1" "$address:$T/export" /mnt ||
		fail "mount failed"
}

# The counts of what RDMA devices hold: must be the same after a mount as before it. A device that comes back has another
# number.
rdma_resources()
{
	rdma resource show 2>/dev/null | sed 's/^[0-9]*: //' || true
}

note_resources()
{
	rdma_resources >"$T/resources"
}

resources_are_back()
{
	diff <(rdma_resources) "$T/resources" >/dev/null
}

resources_are_as_noted()
{
	wait_until 10 resources_are_back || fail "RDMA resources leak: $(diff <(rdma_resources) "$T/resources")"
}

workload()
{
	# shellcheck disable=SC2086 # a list
	/host/tests/integration/workload.sh /mnt $work
}

# The same for every row with a mount by nfsrdma; arguments: mount options.
work_ours()
{
	note_resources
	mount_ours "$1"
	workload
	"$STAT" /mnt >/host/out/stat 2>&1 || true
	umount_nfs /mnt
	resources_are_as_noted
}

work_kernel()
{
	note_resources
	mount_kernel "$1"
	workload
	umount /mnt
	resources_are_as_noted
	stop_exportd "$exportd_pid"
}

# --- an adapter that is taken out under load ---------------------------------------------------------------------------

# start_load [soft]: a writer and a reader of /mnt, as load.py says.
start_load()
{
	rm -rf $T/load
	mkdir $T/load
	python3 /host/tests/vm/load.py write /mnt/written $T/load "$@" >$T/written.sum 2>$T/load-write.log &
	writer=$!
	python3 /host/tests/vm/load.py read /mnt/pattern $T/load "$@" 2>$T/load-read.log &
	reader=$!
}

# load_counts FIELD: of both, what went well (1) or failed (2).
load_counts()
{
	echo "$(awk "{print \$$1}" $T/load/write 2>/dev/null || true) $(awk "{print \$$1}" $T/load/read 2>/dev/null || true)"
}

# both_passed FIELD WRITES READS MORE: the counts of both are that much, or more, above these.
both_passed()
{
	local writes reads
	read -r writes reads <<<"$(load_counts "$1")"
	[ "${writes:-0}" -ge $(($2 + $4)) ] && [ "${reads:-0}" -ge $(($3 + $4)) ]
}

load_goes_on()
{
	# shellcheck disable=SC2046 # two numbers
	wait_until 60 both_passed 1 $(load_counts 1 | awk '{print $1 + 0, $2 + 0}') 20 ||
		fail "the load does not go on: $(load_counts 1) done, $(load_counts 2) failed; $(cat $T/load-*.log)"
}

load_fails()
{
	# shellcheck disable=SC2046 # two numbers
	wait_until 60 both_passed 2 $(load_counts 2 | awk '{print $1 + 0, $2 + 0}') 1 ||
		fail "nothing fails: $(load_counts 1) done, $(load_counts 2) failed; $(cat $T/load-*.log)"
}

# stop_load DIR: it ends well, and what it wrote is at the server.
stop_load()
{
	touch $T/load/stop
	wait "$writer" || fail "the writer failed: $(tail -1 $T/load-write.log)"
	wait "$reader" || fail "the reader failed: $(tail -1 $T/load-read.log)"
	assert_eq "$(sha256sum <"$1/written" | cut -d' ' -f1)" "$(cat $T/written.sum)" "SHA-256 of the file at the server"
}

# take_out LINK: no signal ends what waits in the kernel.
take_out()
{
	local pid
	rdma link delete "$1" &
	pid=$!
	wait_until 30 process_ended $pid || {
		echo w >/proc/sysrq-trigger; rdma res show qp; rdma res show cm_id; ss -tanp
		fail "rdma link delete $1 does not come back"
	}
	wait $pid || fail "rdma link delete $1 failed"
}

# --- rows -------------------------------------------------------------------------------------------------------------

row_softiwarp_to_knfsd_siw()
{
	siw_up
	knfsd
	probe 0 device=softiwarp '^device +softiwarp: as asked' '^credits +[1-9]' '^invalidate +by the server: offered' '^  READ '
	work_ours device=softiwarp
}

row_kernel_tcp_to_exportd()
{
	dummy
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash --listen $address
	work_kernel "proto=tcp,port=$tcp_port"
}

# exportd over softiwarp, then over verbs: siw at both ends.
row_kernel_siw_to_exportd()
{
	siw_up
	modprobe rpcrdma
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash --listen $address
	work_kernel "proto=rdma,port=$rdma_port"
	work=large_file
	unset rdma_port tcp_port
	start_exportd "$T/export" --no-root-squash --listen $address --device verbs
	/host/bin/first_reply $address "$rdma_port" 5 verbs # and what exportd keeps after its first connection is there
	work_kernel "proto=rdma,port=$rdma_port"
}

# A process that may lock a MiB of memory, and no more.
with_a_mib_to_lock()
{
	prlimit --memlock=1048576:1048576 setpriv --inh-caps=-ipc_lock,-sys_resource --bounding-set=-ipc_lock,-sys_resource timeout 60 "$@"
}

# It is told how much it needs, before anything is registered.
memlock_is_checked()
{
	local status=0
	with_a_mib_to_lock "$NFSRDMA" $address:/exp /mnt -o device=verbs,retry=0 >"$T/memlock.log" 2>&1 </dev/null || status=$?
	cat "$T/memlock.log"
	[ "$status" -ne 0 ] || fail "mounted with a memory-lock limit of 1 MiB"
	grep -q 'KiB of memory have to be locked, the limit is 1024 KiB' "$T/memlock.log" || fail "the limit is not named"
	status=0
	with_a_mib_to_lock "$PROBE" $address:/exp -o device=verbs >"$T/report" 2>&1 </dev/null || status=$?
	cat "$T/report"
	assert_eq "$status" 1 "exit status of nfsrdma-probe with a memory-lock limit of 1 MiB"
	grep -q '^  likely .*the limit of locked memory' "$T/report" || fail "nfsrdma-probe does not tell the reason"
}

# arguments: how memory is opened to the server
row_verbs_rxe_to_knfsd()
{
	rxe_up
	[ "$1" != window ] || probe 1 device=verbs '^mount +FAILED' '^connect +FAILED' '^  likely .*does not serve NFS over RDMA on that port'
	knfsd
	probe 0 "memreg=$1" '^device +verbs over rxe0' "^memreg +$1: as asked" '^windows .*NOT enforce' '^invalidate +by the server: not offered' '^  READ '
	work_ours "device=verbs,memreg=$1"
	[ "$1" != window ] || memlock_is_checked
	[ "$1" != window ] || grep -q 'does not enforce the bounds' "$T/nfsrdma.log" || fail "nothing was said of rxe's windows"
}

row_verbs_siw_to_knfsd()
{
	siw_up
	knfsd
	probe 0 device=auto '^device +verbs over siw0' '^memreg +dynamic: the device has no memory windows' '^windows .*none' '^  READ '
	work_ours device=auto
	grep -q 'memreg dynamic, device verbs over siw0' "$T/nfsrdma.log" || fail "auto did not take verbs and dynamic"
}

# An IPv6 literal: the kernel's server over rxe, exportd over rxe, the kernel's server over siw.
row_ipv6()
{
	work=cp_a
	source="[$address6]:/exp"
	rxe_up
	knfsd
	probe 0 device=auto '^device +verbs over rxe0' '^  READ '
	work_ours device=auto
	source="[$address6]:$T/export"
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash --listen $address6 --device verbs
	probe 0 "device=verbs,port=$rdma_port,mountport=$tcp_port" '^device +verbs over rxe0' '^  READ '
	work_ours "device=verbs,port=$rdma_port,mountport=$tcp_port"
	stop_exportd "$exportd_pid"
	source="[$address6]:/exp"
	rdma link delete rxe0
	modprobe siw
	rdma link add siw0 type siw netdev d0
	probe 0 device=softiwarp '^device +softiwarp: as asked' '^  READ '
	work_ours device=softiwarp
}

# Which tests of the project's own scripts are not for the kernel's server: those that need exportd, TCP connections, programs that
# the image lacks, an ordinary user who may lock much memory, or more speed than an emulated machine has. The kernel's server remembers, and so
# holds, a mount that it met in an export. It was seen to answer for an ACL of 484 entries with what is EIO here (Linux 6.1, rxe);
# why is not known.
declare -A not_against_knfsd=(
	[semantics]='nconnect_4|mounted_by_an_ordinary_user|lanes_that_cannot_start|fstab|ipv6'
	[sharing]=export_contains_its_own_mount
	[recovery]='two_slot_arena.*|terminated_daemon_ends_in_the_middle_of_things|server_that_stops_answering|network_that_drops_everything|address_that_moves'
	[acl]='on_a_tmpfs|a_server_without_nfsacl|a_server_that_no_longer_has_nfsacl|programs|the_longest_acls'
)
# And those that make a row short enough for SCALE=ci.
declare -A ci_against_knfsd=(
	[semantics]='data_both_ways|o_direct|mmap_shared_write|truncate_and_append|rename_over_open_file|exclusive_create_.*|server_root_squash|small_rsize_and_wsize|unmount_saves_everything'
	[sharing]='closed_files_.*|fsx_across_two_mounts|random_work_.*|two_users_.*|supplementary_groups_count'
	[recovery]='server_.*|changed_verifier_.*|callers_of_a_dead_.*|soft_mount_.*|unmount_while_.*|killed_daemon_.*'
	[acl]='set_get_and_remove|directories_that_only_an_acl_opens|chmod_sets_the_mask|the_server_has_the_last_word'
)

# own_tests SCRIPT: the names of those to run.
own_tests()
{
	local not=${not_against_knfsd[$1]} only='.*'
	[ "$vm_scale" = full ] || only=${ci_against_knfsd[$1]}
	tests_in "/host/tests/integration/$1.sh" | grep -xE "$only" | grep -vxE "$not"
}

# arguments: a script of tests/integration. It mounts the kernel's server by verbs over rxe.
row_own_tests()
{
	local names
	rxe_up
	# On the disk with Linux 6.1.192: the places in its tmpfs's listings move when names go, and its server answers a READ that begins
	# within a page of a hole there with other bytes, whoever the client is.
	[[ $(uname -r) != 6.1.* ]] || export TMPDIR=/var/tmp
	export SERVER_ADDRESS=$address MOUNT_OPTIONS=device=verbs PEER=/host/tests/vm/knfsd.sh
	mapfile -t names < <(own_tests "$1")
	note_resources
	"/host/tests/integration/$1.sh" "${names[@]}"
	resources_are_as_noted
}

row_kernel_rxe_to_exportd()
{
	rxe_up
	modprobe rpcrdma
	mkdir "$T/export"
	start_exportd "$T/export" --no-root-squash --listen $address --device verbs
	/host/bin/first_reply $address "$rdma_port" 5 verbs
	work_kernel "proto=rdma,port=$rdma_port"
}

# The server of the unplugged link: the kernel's, or exportd, which listens at the address $2. Sets exported and where, the
# mount options that lead to it.
serve_unplugged()
{
	if [ "$1" = knfsd ]; then
		knfsd
		exported=/exp where=
	else
		exported=$T/export
		mkdir "$exported"
		start_exportd "$exported" --no-root-squash --listen "$2" --device verbs
		where=,port=$rdma_port,mountport=$tcp_port
	fi
	source=$address:$exported
	mkdir $T/load
	touch $T/load/stop # one round
	python3 /host/tests/vm/load.py write "$exported/pattern" $T/load >/dev/null
}

# arguments: rxe or siw; the server: knfsd, or exportd and where it listens
row_unplug()
{
	local link=$1 server=$2 listen=${3:-}
	"${link}_up"
	serve_unplugged "$server" "$listen"
	note_resources

	mount_ours "device=verbs,nconnect=2$where"
	start_load
	load_goes_on
	take_out "${link}0"
	"${link}_link"
	load_goes_on
	stop_load "$exported"
	assert_eq "$(load_counts 2 | xargs)" "0 0" "failed operations on a hard mount"
	umount_nfs /mnt

	mount_ours "device=verbs,nconnect=2,soft,timeo=30,retrans=1$where"
	start_load soft
	load_goes_on
	take_out "${link}0"
	load_fails
	"${link}_link"
	load_goes_on
	stop_load "$exported"
	take_out "${link}0"
	umount_nfs /mnt
	"${link}_link"
	if [ "$server" != knfsd ]; then # nobody is connected: it alone has the link open
		mount_ours "device=verbs$where"
		ls /mnt
		umount_nfs /mnt
		take_out "${link}0"
		"${link}_link"
	fi
	resources_are_as_noted
	[ "$server" = knfsd ] || stop_exportd "$exportd_pid"
}

# conform [CASE…]: the conformance suite at /mnt, of which no others than these cases may fail; and pjdfstest, where that was asked
# for.
conform()
{
	local status=0 name
	/host/bin/conformance /mnt >"$T/conformance.log" 2>&1 || status=$?
	grep -v '^ok' "$T/conformance.log" || true
	[ "$status" -le 1 ] || fail "the conformance suite ended with status $status"
	while read -r name; do
		[[ " $* " == *" $name "* ]] || fail "$(grep "^not ok $name" "$T/conformance.log")"
	done < <(sed -n 's/^not ok \([^:]*\).*/\1/p' "$T/conformance.log")
	[ -d /host/pjdfstest ] || return 0
	# It makes names by openssl md5, which is not in the image.
	printf '#!/bin/sh\nmd5sum | cut -d" " -f1\n' >/usr/bin/openssl
	chmod 755 /usr/bin/openssl
	# shellcheck disable=SC2086 # a list
	/host/tests/conformance/pjdfstest.sh /host/pjdfstest /mnt $pjdfstests
}

row_conformance_rxe()
{
	rxe_up
	knfsd
	mount_ours device=verbs
	conform
	umount_nfs /mnt
}

# The kernel's own client against the same server, for comparison (Linux 6.1.192).
row_conformance_kernel()
{
	dummy
	knfsd
	mkdir -p /mnt
	modprobe nfs
	mount -t nfs -o vers=3,nolock,proto=tcp,mountproto=tcp,mountport=20048 $address:/exp /mnt
	conform access_as_owner_group_and_other mmap_beyond_the_end rename_under_open_files unlinked_file_has_another_name \
		unlinked_file_lives_on utimensat_permissions
	umount /mnt
}

# The same where ib_uverbs is told first, and waits for us before rdma_cm can tell us anything.
row_unplug_uverbs_first()
{
	modules="rdma_cm ib_uverbs rdma_ucm"
	row_unplug "$@"
}

# arguments: rxe or siw. The suite that every device has to pass, and the one of both ends of the transport.
row_device_suite()
{
	"$1"_up
	note_resources
	DEVICE_TEST_VERBS=$address CMOCKA_MESSAGE_OUTPUT=TAP timeout 600 /host/bin/device_test
	END_TO_END_VERBS=$address CMOCKA_MESSAGE_OUTPUT=TAP timeout 600 /host/bin/end_to_end_test
	resources_are_as_noted
}

# arguments: rxe or siw, and options of map_cost. Not a test: contrib/bench/map_cost.sh has it run.
row_map_cost()
{
	local device options
	read -r device options <<<"$1"
	"${device}_up"
	# shellcheck disable=SC2086 # a list
	/host/bin/map_cost --device=verbs --address=$address --csv=/host/out/map_cost.csv $options >/host/out/map_cost.txt
}

# --- locks: the client in a network of its own, with rpcbind and rpc.statd of its own -----------------------------------

# Its /run is its own too: there is the socket of rpcbind.
client_up()
{
	modprobe veth
	ip netns add client
	ip link add v0 type veth peer name v1 netns client
	ip addr add $address/24 dev v0
	ip link set v0 up
	ip -n client addr add 10.9.0.2/24 dev v1
	ip -n client link set v1 up
	ip -n client link set lo up
	# shellcheck disable=SC2016 # for its shell
	T=$T ip netns exec client unshare --mount --propagation private bash -ec '
		mount -t tmpfs tmpfs /run
		mkdir -p /run/rpcbind /run/sendsigs.omit.d /run/lock
		touch "$T/client"
		exec sleep infinity' &
	client_pid=$!
	wait_until 20 test -e "$T/client"
}

in_client()
{
	nsenter --target "$client_pid" --net --mount "$@"
}

# mount_with_locks OPTIONS: in the foreground, for its log.
mount_with_locks()
{
	mkdir -p /mnt
	in_client "$NFSRDMA" $address:/exp /mnt -d -o "device=softiwarp,$1" >>"$T/nfsrdma.log" 2>&1 </dev/null &
	mount_pid=$!
	wait_until $((60 * ${TIME_FACTOR:-1})) mounted_or_ended || fail "not mounted"
	in_client mountpoint -q /mnt || fail "mount failed: $(tail -3 "$T/nfsrdma.log")"
}

mounted_or_ended()
{
	in_client mountpoint -q /mnt || process_ended "$mount_pid"
}

log_says()
{
	grep -qE -- "$1" "$T/nfsrdma.log"
}

# ours NAME HOW [WORD…], theirs, servers: a process that locks /exp/file through nfsrdma, through the kernel's client, and on the
# server itself.
ours()
{
	local name=$1
	shift
	locker_in=(nsenter --target "$client_pid" --net --mount)
	locker "$name" /mnt/file "$@"
	locker_in=()
}

theirs()
{
	local name=$1
	shift
	locker "$name" /kmnt/file "$@"
}

servers_try()
{
	try_lock /exp/file "$@"
}

ours_try()
{
	locker_in=(nsenter --target "$client_pid" --net --mount)
	try_lock /mnt/file "$@"
	locker_in=()
}

server_lets()
{
	[ "$(servers_try "$@")" = held ]
}

lock_conflicts()
{
	ours a fcntl ex 0 10
	locker_says a held
	assert_eq "$(servers_try fcntl ex 5 10)" denied "a lock on the server that overlaps ours"
	assert_eq "$(servers_try fcntl ex 10 10)" held "a lock on the server behind ours"
	assert_eq "$(ours_try fcntl sh 9 1)" denied "a lock of another process of the same mount"
	assert_eq "$(try_lock /kmnt/file fcntl ex)" denied "a lock of the kernel's client"
	assert_eq "$(try_lock /kmnt/file test | cut -d" " -f1-3)" "ex 0 10" "F_GETLK by the kernel's client"
	assert_eq "$(ours_try test | cut -d" " -f1-3)" "ex 0 10" "F_GETLK by ours"
	locker_ends a
	assert_eq "$(servers_try fcntl ex)" held "a lock on the server when ours is gone"
	ours b flock sh
	locker_says b held
	assert_eq "$(ours_try fcntl ex 3 1)" denied "fcntl against flock"
	assert_eq "$(ours_try flock sh)" held "flock shared"
	assert_eq "$(servers_try fcntl sh)" held "a shared lock on the server"
	locker_ends b
	theirs c fcntl ex 100 50
	locker_says c held
	assert_eq "$(ours_try test | cut -d" " -f1-3)" "ex 100 50" "F_GETLK by ours of theirs"
	locker_ends c
}

locks_are_waited_for()
{
	theirs a fcntl ex
	locker_says a held
	ours b fcntl ex 0 1 wait
	wait_until 30 log_says 'a lock is waited for' || fail "ours does not wait"
	locker_ends a
	locker_says b held
	# Linux 6.12.117 forgets who waits: the lock is asked for again.
	[[ $(uname -r) = 6.12.* ]] || log_says 'is granted by callback' || fail "no callback came"
	theirs c fcntl ex wait
	locker_ends b
	locker_says c held
	locker_ends c
}

waits_are_interrupted()
{
	theirs a fcntl ex
	locker_says a held
	: >"$T/nfsrdma.log"
	ours b fcntl ex wait
	wait_until 30 log_says 'a lock is waited for' || fail "ours does not wait"
	kill -USR1 "${locker_pid[b]}"
	locker_says b interrupted
	locker_ends b
	: >"$T/nfsrdma.log"
	ours c flock ex wait
	wait_until 30 log_says 'a lock is waited for' || fail "ours does not wait"
	kill -KILL "${locker_pid[c]}"
	locker_ends c
	locker_ends a
	wait_until 30 server_lets fcntl ex || fail "a wait that has ended left a lock"
}

death_unlocks()
{
	ours a fcntl ex
	locker_says a held
	kill -KILL "${locker_pid[a]}"
	wait_until 30 server_lets fcntl ex || fail "the lock of a process that was killed stays"
	locker_ends a
	ours b ofd ex
	locker_says b held
	assert_eq "$(servers_try fcntl ex)" denied "against an OFD lock"
	locker_ends b
	wait_until 30 server_lets fcntl ex || fail "an OFD lock stays when its file is closed"
}

restarts_are_survived()
{
	ours a fcntl ex 0 10
	ours b fcntl sh 20 10
	locker_says a held
	locker_says b held
	rpc.nfsd 0
	# While the server is down another gets what one of them had.
	locker rival /exp/file fcntl ex 20 10
	locker_says rival held
	sysctl -qw fs.nfs.nlm_grace_period=30
	knfsd_start
	wait_until 60 log_says 'locks on the server: 1 are held again, 1 are lost' || fail "no reclaim"
	log_says 'a lock of process [1-9][0-9]* is lost' || fail "the lost lock is not named"
	assert_eq "$(servers_try fcntl ex 0 10)" denied "the reclaimed lock"
	locker_ends rival
	: >"$T/nfsrdma.log"
	timeout 60 sm-notify -d -f -v $address
	wait_until 60 log_says 'the status monitor says that the server has restarted' || fail "no word of the status monitor"
	wait_until 60 log_says 'locks on the server: 1 are held again, 0 are lost' || fail "no reclaim after the status monitor's word"
	assert_eq "$(servers_try fcntl ex 0 10)" denied "the lock after the second reclaim"
	locker_ends a
	locker_ends b
	wait_until 30 server_lets fcntl ex || fail "a reclaimed lock stays when it is unlocked"
}

lock_needs()
{
	local status=0
	in_client timeout 60 "$NFSRDMA" $address:/exp /mnt -o device=softiwarp,lock >"$T/refused.log" 2>&1 </dev/null || status=$?
	cat "$T/refused.log"
	assert_eq "$status" 1 "exit status of a mount with lock"
	grep -q "$1.*nolock" "$T/refused.log" || fail "the cure is not named"
}

row_locks()
{
	# sm-notify wants to know who it is.
	echo "$address server" >>/etc/hosts
	client_up
	modprobe -a siw lockd
	rdma link add siw0 type siw netdev v0
	sysctl -qw fs.nfs.nlm_timeout=3 fs.nfs.nlm_grace_period=3
	knfsd
	rpc.statd --no-notify
	echo Y >/proc/fs/nfsd/v4_end_grace
	lock_needs 'rpcbind is not running'
	in_client rpcbind -w
	lock_needs 'rpc.statd is not running'
	cp -a /var/lib/nfs /var/lib/nfs-client
	in_client rpc.statd --no-notify -P /var/lib/nfs-client
	mount_with_locks lock
	[ -n "$(ls /var/lib/nfs-client/sm)" ] || fail "rpc.statd watches nobody"
	modprobe nfs
	mkdir -p /kmnt
	mount -t nfs -o vers=3,proto=tcp,mountport=20048,lock $address:/exp /kmnt
	in_client rpcinfo -p | grep -q '100021 *4 *tcp' || fail "not registered with rpcbind"
	lock_conflicts
	locks_are_waited_for
	waits_are_interrupted
	death_unlocks
	umount /kmnt
	restarts_are_survived
	in_client umount /mnt
	wait_until 30 process_ended "$mount_pid" || fail "the daemon goes on after the unmount"
	! in_client rpcinfo -p | grep -q '100021' || fail "still registered with rpcbind"
	assert_eq "$(ls /var/lib/nfs-client/sm)" "" "what rpc.statd watches after the unmount"
	kill "$client_pid"
}

# argument: seconds. The server for somebody outside: until the file /host/done appears.
row_serve_siw()
{
	modprobe -a virtio_net ib_uverbs rdma_ucm siw
	wait_until 10 test -e /sys/class/net/eth0 || fail "no network interface"
	ip addr add 10.0.2.15/24 dev eth0
	ip link set eth0 up
	ip route add default via 10.0.2.2
	rdma link add siw0 type siw netdev eth0
	knfsd
	note_resources
	touch /host/out/ready
	wait_until "$1" test -e /host/done || fail "nobody came"
	resources_are_as_noted
}

# In one row, because each has to unpack the machine.
row_package()
{
	modprobe -a overlay autofs4
	mkdir /machine
	mount -t tmpfs tmpfs /machine
	tar -C /machine -xf /host/machine.tar
	BASE_ROOT=/machine PACKAGES=/host/packages /host/tests/package.sh purge_leaves_nothing mounts_at_boot \
		upgrade_and_removal unit_restarts_a_killed_daemon mount_by_mount autofs
}

# The blocks of the documents that are for here (see docs.py). There is no systemd: the services are started as its units do.
row_docs()
{
	local mark file
	modprobe -a dummy ib_uverbs rdma_ucm nfsd
	ip link add eth0 type dummy
	ip addr add $address/24 dev eth0
	ip link set eth0 up
	echo "$address server" >>/etc/hosts
	mkdir /export
	mount -t tmpfs tmpfs /export
	mount -t nfsd nfsd /proc/fs/nfsd
	rpcbind -w
	rpc.nfsd -N 4 8
	rpc.mountd
	mkdir "$T/blocks"
	(cd /host && python3 tests/docs.py extract ./*.md docs/*.md "$T/blocks")
	for mark in "$T"/blocks/*.mark; do
		case $(cat "$mark") in
		"run: guest")
			echo "--- $(cat "${mark%mark}where")"
			PATH=/host/bin:$PATH bash -eux "${mark%mark}sh"
			;;
		"file: guest "*)
			file=$(sed 's/.* //' "$mark")
			mkdir -p "${file%/*}"
			cat "${mark%mark}sh" >>"$file"
			;;
		esac
	done
}

# --- running one ------------------------------------------------------------------------------------------------------

kernel_log_is_clean()
{
	! grep -nE 'WARNING:|BUG:|Oops|general protection|Call Trace|refcount_t|KASAN|leak|Unknown symbol|blocked for more' /host/out/dmesg
}

run()
{
	mkdir -p $T $LOGS
	dmesg -C
	# shellcheck disable=SC2086 # a list
	"row_$row_name" $row_args
}

# A guest that hangs is ended from outside: what it has seen so far is out by then.
keep_logs()
{
	while sleep 10; do
		cp $T/*.log /host/out/ 2>/dev/null || true
		dmesg >/host/out/dmesg
		ps -eLo pid,tid,stat,wchan:32,args >/host/out/ps
	done
}

status=0
mkdir -p /host/out $T
if [ "${1:-}" = --row ]; then
	trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
	set -E
	run
	exit 0
fi
keep_logs &
"$0" --row >/host/out/log 2>&1 </dev/null || status=$?
kill %1
cp $T/*.log /host/out/ 2>/dev/null || true
dmesg >/host/out/dmesg
if ! kernel_log_is_clean >>/host/out/log; then
	echo "FAILED: the kernel's log holds a complaint" >>/host/out/log
	status=1
fi
echo $status >/host/out/status
