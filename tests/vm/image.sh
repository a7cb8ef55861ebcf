#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/vm/image.sh: makes the guest that tests/vm/vm.sh boots, once, and prints the directory that it is kept in:
# below ${NFSRDMA_VM_CACHE:-${XDG_CACHE_HOME:-~/.cache}/nfsrdma}, a directory for each state of this script. It holds
#
#   root.img		a Debian 12 with soft-RoCE, siw, the kernel's NFS server and client, FUSE, and what the tests run
#   vmlinuz-N initrd-N	for each kernel N of $vm_kernels
#
# Packages come from the mirror that this machine's apt is set to. Debian's kernels leave siw out; it is built from Debian's own
# source package. The image is never booted for writing.

set -euo pipefail

vm_kernels="6.1 6.12"
packages=(
	linux-image-amd64 linux-headers-amd64 linux-source-6.1
	linux-image-6.12-amd64 linux-headers-6.12-amd64 linux-source-6.12
	gcc libc6-dev make xz-utils initramfs-tools kmod udev iproute2 procps python3 git rsync
	rdma-core ibverbs-providers ibverbs-utils librdmacm1 rdmacm-utils nfs-kernel-server nfs-common rpcbind
	fuse3 libfuse3-3 libnfs13 libcmocka0
)
cache=${NFSRDMA_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nfsrdma}
image=$cache/vm-$(sha256sum "$0" | cut -c1-16)

# The place that apt has Debian's main archive from; or, named security, the updates'.
site()
{
	# shellcheck disable=SC2016 # apt's placeholders
	apt-get indextargets --format '$(SITE) $(ORIGIN) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' |
		awk -v security="${1:+1}" '$2 == "Debian" && $3 == "main" && $4 !~ /updates|backports/ &&
			(security ? $4 ~ /security/ : $4 !~ /security/) { print $1; exit }'
}

sources()
{
	echo "deb $(site) bookworm main"
	echo "deb $(site) bookworm-updates main"
	echo "deb $(site security) bookworm-security main"
}

# build_siw ROOT KERNEL: for the kernel of that series, among its own modules.
build_siw()
{
	local root=$1 series=$2 version
	version=$(cd "$root/lib/modules" && echo "$series".*-amd64)
	tar -C "$root/usr/src" -xf "$root/usr/src/linux-source-$series.tar.xz" "linux-source-$series/drivers/infiniband/sw/siw"
	chroot "$root" make -s -C "/lib/modules/$version/build" \
		M="/usr/src/linux-source-$series/drivers/infiniband/sw/siw" CONFIG_RDMA_SIW=m modules
	install -D -m 644 "$root/usr/src/linux-source-$series/drivers/infiniband/sw/siw/siw.ko" \
		"$root/lib/modules/$version/updates/siw.ko"
	chroot "$root" depmod "$version"
	cp "$root/boot/vmlinuz-$version" "$work/vmlinuz-$series"
	cp "$root/boot/initrd.img-$version" "$work/initrd-$series"
}

# What boots instead of an init system: mounts, then the program that the shared directory holds, then off.
write_init()
{
	cat >"$1/sbin/vm-init" <<'INIT'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/shm /host
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
mkdir -p /run/rpcbind /run/sendsigs.omit.d /run/lock
hostname guest
ip link set lo up
ulimit -n 65536
modprobe -a 9pnet_virtio 9p fuse
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /host && /host/run
sync
echo o >/proc/sysrq-trigger
sleep 60
INIT
	chmod 755 "$1/sbin/vm-init"
}

make_image()
{
	local root=$work/root series list
	list=$(IFS=, && echo "${packages[*]}")
	mkdir -p "$root"
	# The initial RAM disk holds what this machine needs and no more.
	# shellcheck disable=SC2016 # mmdebstrap's argument, expanded by its shell
	mmdebstrap --variant=minbase --include="$list" --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--aptopt='Acquire::Retries "3"' \
		--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
		--essential-hook='echo "MODULES=list" >"$1/etc/initramfs-tools/conf.d/vm"' \
		--essential-hook='printf "virtio_pci\nvirtio_blk\next4\n" >"$1/etc/initramfs-tools/modules"' \
		bookworm "$root" - < <(sources)
	# The guest has no DNS: whoever asks gets his answer at once.
	sed -i 's/^hosts:.*/hosts: files/' "$root/etc/nsswitch.conf"
	rm -f "$root/etc/resolv.conf"
	printf '127.0.0.1 localhost guest\n::1 localhost\n' >"$root/etc/hosts"
	write_init "$root"
	for series in $vm_kernels; do
		build_siw "$root" "$series"
	done
	rm -rf "$root"/usr/src/linux-{source,config,patch}-* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
	mke2fs -q -t ext4 -O ^has_journal -d "$root" "$work/root.img" 5G
	rm -rf --one-file-system "$root"
}

[ -e "$image/root.img" ] && echo "$image" && exit 0
mkdir -p "$cache"
exec 9>"$cache/vm.lock"
flock 9
[ -e "$image/root.img" ] && echo "$image" && exit 0
work=$image.new
rm -rf --one-file-system "$work"
mkdir "$work"
make_image >&2
mv "$work" "$image"
# Images of earlier states of this script are of no use any more.
for old in "$cache"/vm-*; do
	[ "$old" = "$image" ] || [ "$old" = "$cache/vm.lock" ] || rm -rf --one-file-system "$old"
done
echo "$image"
