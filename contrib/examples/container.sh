#!/bin/sh
# SPDX-License-Identifier: MIT
#
# container.sh SERVER:/EXPORT OPTIONS COMMAND…: mounts the export at /mnt where only COMMAND sees it, runs that, and unmounts.
# No root, no container engine, no setuid program: user and mount namespaces of its own (unshare(1)), in which the caller
# may mount FUSE file systems. The machine must let ordinary users make user namespaces and open /dev/fuse.
#
# A rootless container of an engine, for which this stands, needs the same: the device /dev/fuse, and CAP_SYS_ADMIN in the
# container's own user namespace (podman run --userns keep-id --device /dev/fuse --cap-add SYS_ADMIN …). verbs needs
# /dev/infiniband (--device /dev/infiniband) and enough locked memory (--ulimit memlock=-1) besides.
#
# Everything is done as the caller, and only his ids mean anything there: the kernel lets nobody write where the owner or
# the group of a file or directory is an id that the namespace does not know.
[ $# -ge 3 ] || { sed -n '4,6s/^# //p' "$0" >&2 && exit 2; }
# shellcheck disable=SC2016 # for the inner shell
exec unshare --user --map-current-user --keep-caps --mount --propagation private sh -c '
	source=$1 options=$2
	shift 2
	nfsrdma "$source" /mnt -o "$options" || exit 1
	"$@"
	status=$?
	umount /mnt
	exit $status' sh "$@"
