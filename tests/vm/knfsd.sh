# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The kernel's own NFS server, on port 20049 of every RDMA device and TCP port 20048 for mountd. Sourced by guest.sh; and by
# tests/lib.sh as PEER, where it takes the place of exportd: the same tests, and the same names of what they call.

knfsd_start()
{
	modprobe -a nfsd rpcrdma
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	pidof rpcbind >/dev/null || rpcbind -w
	rpc.nfsd -N 4 8
	# Debian's default, manage-gids, has the server look up a user's groups by itself and ignore those in the call.
	printf '[mountd]\nmanage-gids=n\n' >/etc/nfs.conf
	pidof rpc.mountd >/dev/null || rpc.mountd -p 20048
	# Twice is an error, after which Linux 6.1.192 frees what it does not have.
	grep -q '^rdma 20049' /proc/fs/nfsd/portlist || echo 'rdma 20049' >/proc/fs/nfsd/portlist
}

# start_exportd DIR [--no-root-squash]
start_exportd()
{
	local squash=root_squash
	[ "${2:-}" != --no-root-squash ] || squash=no_root_squash
	knfsd_start
	exportfs -o "rw,async,$squash,no_subtree_check,fsid=2,insecure" "*:$1"
	# shellcheck disable=SC2034 # for the tests
	rdma_port=20049 tcp_port=20048 exportd_pid=knfsd servers=$1
}

# Its threads end and its connections with them; what it exports it still knows.
kill_exportd()
{
	rpc.nfsd 0
}

# Called at the end of a test with what start_exportd has put into $servers.
stop_exportd()
{
	exportfs -u "*:$1"
	rpc.nfsd 0
}
