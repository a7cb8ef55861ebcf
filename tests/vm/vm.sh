#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/vm/vm.sh [ROW…]: nfsrdma and nfsrdma-exportd against the kernel's own NFS/RDMA server and client, in a guest (see
# image.sh), each row a boot of its own. KERNELS="6.1 6.12" picks kernels; they run side by side. VM_WORK picks the tests of
# workload.sh that a row runs. What a row does is in guest.sh.
#
# PJDFSTEST=CHECKOUT adds a built checkout of pjdfstest to the rows conformance_*, PJDFSTESTS="chmod open/00.t" some of it. All of
# it takes hours under emulation, except in conformance_host, which has only the server emulated.

# shellcheck disable=SC2030,SC2031 # what a subshell changes is for it alone
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

vm_dir=$source_dir/tests/vm
KERNELS=${KERNELS:-6.1 6.12}
# So that nothing hangs. On a quiet machine a row takes about a minute.
# shellcheck disable=SC2034 # for tests_main
default_limit_s=900

# KVM where it is usable, which only a kernel that boots shows; else emulation. That copies bytes one by one for a guest that
# believes in fast string instructions.
accelerator()
{
	if [ -w /dev/kvm ] && timeout 20 qemu-system-x86_64 -accel kvm -cpu host -m 512 -nographic -no-reboot -nic none \
		-kernel "$VM_IMAGE/vmlinuz-6.1" -append "console=ttyS0 panic=-1" </dev/null 2>/dev/null | grep -q 'Linux version'; then
		echo "kvm -cpu host"
	else
		echo "tcg,thread=multi,tb-size=512 -cpu max,-erms,-fsrm"
	fi
}

# prepare_share: what the guest sees as /host.
prepare_share()
{
	share=$T/share
	mkdir -p "$share/bin" "$share/out"
	cp "$NFSRDMA" "$EXPORTD" "$PROBE" "$STAT" "$build_dir/tests/vm/first_reply" "$share/bin/"
	cp "$build_dir/tests/unit/device_test" "$build_dir/tests/unit/end_to_end_test" "$share/bin/"
	cp "$build_dir/tests/conformance/conformance" "$build_dir/contrib/bench/map_cost" "$share/bin/"
	cp -r "$source_dir/tests" "$share/tests"
	[ -z "${PJDFSTEST:-}" ] || cp -r "$PJDFSTEST" "$share/pjdfstest"
	cp "$vm_dir/guest.sh" "$share/run"
	local work="cp_a git sqlite_wal sqlite_rollback_journal tar large_file parallel_small_files fsx"
	local tree=/usr/include/linux large_mib=256 fsx_ops=3000
	# Emulation is some twenty times slower than KVM.
	case $SCALE,$VM_ACCEL in
	full,tcg*)
		work=${work/ git/} # a thousand processes: minutes for each
		tree=/usr/include/linux/netfilter large_mib=64 fsx_ops=1000
		;;
	*,tcg*)
		work="cp_a sqlite_wal large_file fsx"
		tree=/usr/include/linux/netfilter large_mib=24 fsx_ops=300
		;;
	esac
	printf 'work="%s" pjdfstests="%s" vm_scale=%s\nexport TIME_FACTOR=10 SCALE=small LARGE_MIB=%s FSX_OPS=%s TREE=%s\n' \
		"${VM_WORK:-$work}" "${PJDFSTESTS:-}" "$SCALE" "$large_mib" "$fsx_ops" "$tree" >"$share/env"
}

# Works in a directory as the guest would.
work_in()
{
	(
		export LOGS=$T/logs
		mkdir -p "$LOGS"
		# shellcheck source=/dev/null
		. "$share/env"
		unset RESULTS GROUP_PREFIX group_name
		# shellcheck disable=SC2086,SC2154 # a list, from there
		"$source_dir/tests/integration/workload.sh" "$1" $work
	)
}

# How many CPUs a guest has. Emulated ones that wait for each other's spin locks, two guests on two cores, take half as long again.
guest_cpus()
{
	case $VM_ACCEL in
	kvm*) echo 2 ;;
	*) echo 1 ;;
	esac
}

# start_guest ROW [ARGUMENT] [NIC]: boots it; sets guest_pid. no_timer_check: on a busy machine an emulated timer is late, which
# the kernel takes for a broken one, and panics.
start_guest()
{
	echo "$1 ${2:-}" >"$share/row"
	local nic=${3:-none}
	# shellcheck disable=SC2086 # VM_ACCEL is several words
	T=$T qemu-system-x86_64 -accel $VM_ACCEL -smp "$(guest_cpus)" -m 4096 -nographic -no-reboot -nic "$nic" \
		-kernel "$VM_IMAGE/vmlinuz-$KERNEL" -initrd "$VM_IMAGE/initrd-$KERNEL" \
		-append "console=ttyS0 root=/dev/vda rw quiet panic=-1 mitigations=off no_timer_check cryptomgr.notests net.ifnames=0 init=/sbin/vm-init" \
		-drive "file=$VM_IMAGE/root.img,if=virtio,format=raw,snapshot=on" \
		-virtfs "local,path=$share,mount_tag=host,security_model=none" </dev/null >"$T/console.log" 2>&1 &
	guest_pid=$!
}

# Waits for its end and takes over its verdict.
finish_guest()
{
	wait "$guest_pid" || true
	cat "$share/out/log" 2>/dev/null || true
	# shellcheck disable=SC2154 # tests_main sets it
	mkdir -p "$LOGS/vm/$KERNEL.$test_name"
	cp -r "$share/out/." "$LOGS/vm/$KERNEL.$test_name" 2>/dev/null || true
	[ -e "$share/out/status" ] || fail "the guest ended early: $(tail -5 "$T/console.log" | tr -d '\r')"
	[ "$(cat "$share/out/status")" = 0 ] || fail "$(sed -n 's/^FAILED: //p' "$share/out/log" | tail -1)"
}

in_guest()
{
	prepare_share
	start_guest "$@"
	finish_guest
}

test_verbs_rxe_window()
{
	in_guest verbs_rxe_to_knfsd window
}

test_verbs_rxe_dynamic()
{
	in_guest verbs_rxe_to_knfsd dynamic
}

test_verbs_rxe_persistent()
{
	in_guest verbs_rxe_to_knfsd persistent
}

test_own_semantics_rxe()
{
	in_guest own_tests semantics
}

test_own_sharing_rxe()
{
	in_guest own_tests sharing
}

test_own_recovery_rxe()
{
	in_guest own_tests recovery
}

test_acl()
{
	in_guest own_tests acl
}

test_softiwarp_to_knfsd_siw()
{
	in_guest softiwarp_to_knfsd_siw
}

test_verbs_siw_dynamic()
{
	in_guest verbs_siw_to_knfsd
}

test_kernel_siw_to_exportd()
{
	in_guest kernel_siw_to_exportd
}

test_kernel_rxe_to_exportd()
{
	in_guest kernel_rxe_to_exportd
}

test_kernel_tcp_to_exportd()
{
	in_guest kernel_tcp_to_exportd
}

limits[conformance_rxe]=${PJDFSTEST:+7200}
test_conformance_rxe()
{
	in_guest conformance_rxe
}

limits[conformance_kernel]=${PJDFSTEST:+7200}
test_conformance_kernel()
{
	in_guest conformance_kernel
}

test_ipv6()
{
	in_guest ipv6
}

# Both ends of the transport, too, and a server that invalidates where it was not asked to.
test_device_suite_rxe()
{
	in_guest device_suite rxe
}

test_device_suite_siw()
{
	in_guest device_suite siw
}

test_unplug_rxe()
{
	in_guest unplug "rxe knfsd"
}

# The kernel's server does not survive it on siw: it waits for an RDMA Read that its connection's end does not end, and the
# kernel, with the link, for it (Linux 6.1.192: svc_rdma_process_read_list(), cma_remove_one()).
test_unplug_siw()
{
	in_guest unplug "siw exportd 10.9.0.1"
}

test_unplug_uverbs_first()
{
	in_guest unplug_uverbs_first "rxe exportd 0.0.0.0"
}

limits[locks]=300
test_locks()
{
	in_guest locks
}

guest_is_ready()
{
	[ -e "$share/out/ready" ] || process_ended "$guest_pid"
}

# with_server_in_guest COMMAND…: nfsrdma on this machine, the server in the guest, through ports that are forwarded. The command
# gets the mount as its last argument.
with_server_in_guest()
{
	local rdma mountd reason
	reason=$(why_no_fuse)
	[ -z "$reason" ] || skip "$reason"
	rdma=$(free_port)
	mountd=$(free_port)
	prepare_share
	start_guest serve_siw "$((${limits[$test_name]:-$default_limit_s} * ${TIME_FACTOR:-1}))" \
		"user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:$rdma-:20049,hostfwd=tcp:127.0.0.1:$mountd-:20048"
	wait_until 600 guest_is_ready || fail "the guest's server does not come up"
	rdma_port=$rdma tcp_port=$mountd
	mount_nfs /exp "$T/mnt" device=softiwarp
	"$@" "$T/mnt"
	umount_nfs "$T/mnt"
	touch "$share/done"
	finish_guest
}

connect_and_work_in()
{
	"$build_dir/tests/vm/first_reply" 127.0.0.1 "$rdma_port" 200 softiwarp
	work_in "$1"
}

test_host_softiwarp()
{
	with_server_in_guest connect_and_work_in
}

conform_in()
{
	"$build_dir/tests/conformance/conformance" "$1"
	# shellcheck disable=SC2086 # a list
	[ -z "${PJDFSTEST:-}" ] || "$source_dir/tests/conformance/pjdfstest.sh" "$PJDFSTEST" "$1" ${PJDFSTESTS:-}
}

limits[conformance_host]=${PJDFSTEST:+7200}
test_conformance_host()
{
	with_server_in_guest conform_in
}

# shellcheck disable=SC2317 # the trap calls it
end_all()
{
	kill "${pids[@]}" 2>/dev/null
	wait
	exit 130
}

# Only where they are named, or with SCALE=full: the suite conformance once more, for comparison; and machines that boot five times
# in the guest, which tests/package.sh boots on this one.
rows_of_full='conformance_(kernel|host)|package'

# vm_main [ROW…]: on each kernel. A script that sources this one has its own rows run.
vm_main()
{
	local pid rows status=0
	pids=()
	if [ "${1:-}" = --one ]; then
		tests_main "$@"
		return
	fi
	if [ "${1:-}" = --kernel ]; then
		KERNEL=$2
		shift 2
		GROUP_PREFIX=vm- group_name=$KERNEL tests_main "$@"
		return
	fi
	if [ "$(id -u)" != 0 ]; then
		result skip vm 0 "not root"
		return 0
	fi
	VM_IMAGE=$("$vm_dir/image.sh" 2>"${LOGS:-/tmp}/vm-image.log") || {
		tail -5 "${LOGS:-/tmp}/vm-image.log"
		result fail vm/image 0 "cannot be made, see ${LOGS:-/tmp}/vm-image.log"
		return 1
	}
	VM_ACCEL=$(accelerator)
	if [ $# -eq 0 ] && [ "$SCALE" != full ]; then
		mapfile -t rows < <(tests_in "$0" | grep -vxE "$rows_of_full")
		set -- "${rows[@]}"
	fi
	echo "guest: $VM_IMAGE, $VM_ACCEL"
	export VM_IMAGE VM_ACCEL KERNEL
	# Each keeps one core busy.
	trap end_all INT TERM HUP
	for KERNEL in $KERNELS; do
		"$0" --kernel "$KERNEL" "$@" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	return $status
}

[ "${BASH_SOURCE[0]}" != "$0" ] || vm_main "$@"
