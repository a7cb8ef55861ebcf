# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Debian elsewhere: root directories that are made once and kept in ${CACHE_DIR:-/var/cache/nfsrdma}, and containers that boot
# such a root with systemd, in namespaces and a cgroup of their own and without any container engine. Needs root. Sourced
# behind lib.sh; packages come from the mirror that this machine's apt is set to.

root_cache=${CACHE_DIR:-/var/cache/nfsrdma}
# A machine to install on: what a small server has, and the libraries that the packages depend on.
# shellcheck disable=SC2034 # for debian_root
machine_packages=(systemd-sysv dbus autofs bash-completion fuse3 iproute2 libibverbs1 libncursesw6 libnfs13 librdmacm1 sudo zsh)

# The place that apt has Debian's main archive from.
debian_mirror()
{
	# shellcheck disable=SC2016 # apt's placeholders
	apt-get indextargets --format '$(SITE) $(ORIGIN) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' |
		awk '$2 == "Debian" && $3 == "main" && $4 !~ /security|updates|backports/ { print $1; exit }'
}

mirror_has()
{
	timeout 60 /usr/lib/apt/apt-helper download-file "$1/dists/$2/InRelease" "$LOGS/InRelease" >/dev/null 2>&1
}

# debian_root NAME RELEASE PACKAGE…: sets $root to a root directory of that release with these packages, made when it is not
# there or was made of others. Status 77: it cannot be had here, and $reason says why; 1: making it failed.
debian_root()
{
	local name=$1 release=$2 site lock
	shift 2
	root=$root_cache/$name-$(dpkg --print-architecture)
	# Complete once this file says what was put into it.
	[ "$(cat "$root/.made-of" 2>/dev/null)" != "$*" ] || return 0
	mkdir -p "$root_cache"
	exec {lock}>"$root_cache/$name.lock"
	flock "$lock"
	[ "$(cat "$root/.made-of" 2>/dev/null)" != "$*" ] || return 0
	site=$(debian_mirror)
	[ -n "$site" ] || { reason="apt knows no Debian mirror" && return 77; }
	echo "making a root directory of $release in $root"
	rm -rf --one-file-system "$root" "$root.new"
	if ! timeout 1200 mmdebstrap --variant=apt --include="$(IFS=, && echo "$*")" --aptopt='Acquire::Retries "3"' \
		"$release" "$root.new" "$site" >"$LOGS/mmdebstrap.$name.log" 2>&1; then
		rm -rf --one-file-system "$root.new"
		# A mirror that is not there, or does not have it, is no fault of the project; anything else is.
		mirror_has "$site" "$release" || { reason="the mirror cannot be reached" && return 77; }
		tail -20 "$LOGS/mmdebstrap.$name.log"
		# shellcheck disable=SC2034 # for the caller
		reason="cannot make the root directory, see $LOGS/mmdebstrap.$name.log"
		return 1
	fi
	mv "$root.new" "$root"
	echo "$*" >"$root/.made-of"
	exec {lock}>&-
}

# The tree as git has it, with what is not committed yet; into $1.
# shellcheck disable=SC2154 # of lib.sh
copy_source()
{
	mkdir -p "$1"
	{ git -C "$source_dir" -c safe.directory="$source_dir" ls-files -z --cached --others --exclude-standard 2>/dev/null ||
		(cd "$source_dir" && find . -path './build*' -prune -o -type f -print0); } |
		(cd "$source_dir" && tar --null --ignore-failed-read -cf - -T -) 2>/dev/null | tar -C "$1" -xf -
}

# --- containers -------------------------------------------------------------------------------------------------------

# Where cgroup version 2 is mounted; mounts it, at a place of its own, when it is nowhere.
cgroup2()
{
	local dir
	dir=$(findmnt -n -o TARGET -t cgroup2 | head -1)
	if [ -z "$dir" ]; then
		dir=/run/nfsrdma-cgroup2
		mkdir -p "$dir"
		mount -t cgroup2 cgroup2 "$dir" || return 1
	fi
	echo "$dir"
}

# Why this machine cannot boot a container, or nothing if it can.
why_no_container()
{
	local dir
	if [ "$(id -u)" != 0 ]; then
		echo "not root"
	elif ! dir=$(cgroup2 2>/dev/null) || ! mkdir "$dir/nfsrdma-try.$$" 2>/dev/null; then
		echo "no cgroup version 2 that can be written"
	elif ! rmdir "$dir/nfsrdma-try.$$" || ! unshare --mount --pid --uts --ipc --net --cgroup --fork true 2>/dev/null; then
		echo "no namespaces"
	fi
}

# need_machines SUITE: what a script does first whose tests run on machines: sets and exports BASE_ROOT, unless it is set, and
# LOGS. Ends the script when that cannot be had.
need_machines()
{
	local reason status=0 root start=$EPOCHREALTIME
	LOGS=${LOGS:-$(mktemp -d "$TMPDIR/nfsrdma-logs.XXXXXX")}
	export LOGS BASE_ROOT
	mkdir -p "$LOGS"
	reason=$(why_no_container)
	[ -n "$reason" ] || reason=$(why_no_fuse)
	if [ -z "$reason" ] && [ -z "${BASE_ROOT:-}" ]; then
		command -v mmdebstrap >/dev/null || reason="no mmdebstrap"
		[ -n "$reason" ] || debian_root bookworm bookworm "${machine_packages[@]}" || status=$?
		BASE_ROOT=${root:-}
	fi
	[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || {
		result fail "$1" "$(seconds_since "$start")" "$reason"
		exit 1
	}
	[ -z "$reason" ] || {
		result skip "$1" 0 "$reason"
		exit 0
	}
}

# container_make ROOT: a root directory of its own for this test, $c, whose changes are kept in memory.
container_make()
{
	local base=$T/container
	mkdir "$base"
	mount -t tmpfs tmpfs "$base"
	mkdir "$base/changes" "$base/work" "$base/root"
	mount -t overlay -o "lowerdir=$1,upperdir=$base/changes,workdir=$base/work" overlay "$base/root"
	c=$base/root
	mount -t tmpfs -o mode=755 tmpfs "$c/dev"
	# Nodes of its own: an init system changes the modes of some of them.
	local device
	for device in null zero full random urandom tty fuse autofs; do
		[ ! -c "/dev/$device" ] || cp -a "/dev/$device" "$c/dev/$device"
	done
	cp -a /dev/null "$c/dev/console"
	ln -s /proc/self/fd "$c/dev/fd"
	ln -s pts/ptmx "$c/dev/ptmx"
	mkdir "$c/dev/pts" "$c/dev/shm"
	printf '127.0.0.1 localhost container\n::1 localhost\n' >"$c/etc/hosts"
	echo container >"$c/etc/hostname"
	# There is no terminal.
	ln -sf /dev/null "$c/etc/systemd/system/console-getty.service"
}

# in_root COMMAND…: in $c, not booted, with the network of this machine.
in_root()
{
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$1/proc" && c=$1 && shift && exec chroot "$c" "$@"' \
		sh "$c" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# What becomes the container's first process: in its namespaces, with $1 as its root.
# shellcheck disable=SC2016
container_init='
	set -e
	mount --bind "$1" "$1"
	cd "$1"
	mount -t proc proc proc
	mount -t sysfs -o ro sysfs sys
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
	mount -t tmpfs tmpfs dev/shm
	mount -t tmpfs -o mode=755 tmpfs run
	mount -t tmpfs tmpfs tmp
	ip link set lo up
	hostname container
	pivot_root . mnt
	exec chroot . /bin/sh -c "umount -l /mnt; exec env -i container=nfsrdma \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /sbin/init"'

# container_boot: boots $c, and waits until systemd says that it is up. Its network is a loopback interface.
container_boot()
{
	container_cgroup=$(cgroup2)/nfsrdma-test.$$
	mkdir -p "$container_cgroup"
	(
		echo "$BASHPID" >"$container_cgroup/cgroup.procs"
		exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child --propagation private \
			sh -c "$container_init" sh "$c"
	) </dev/null >"$T/container.log" 2>&1 &
	container_pid=$!
	wait_until 60 container_speaks || fail "the container does not boot: $(tail -3 "$T/container.log")"
}

container_speaks()
{
	local state
	init_pid=$(cat "/proc/$container_pid/task/$container_pid/children" 2>/dev/null) || return 1
	init_pid=${init_pid%% *}
	[ -n "$init_pid" ] && [ "$(readlink "/proc/$init_pid/root")" = / ] || return 1
	state=$(in_container systemctl is-system-running 2>/dev/null || true)
	[ "$state" = running ] || [ "$state" = degraded ]
}

# in_container COMMAND…: as root, in all of its namespaces: what another login is.
in_container()
{
	nsenter --target "$init_pid" --mount --pid --uts --ipc --net --cgroup --root --wd env -i \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive "$@"
}

# The container shuts down as a machine does.
container_poweroff()
{
	in_container systemctl poweroff </dev/null
	wait_until "${1:-60}" process_ended "$container_pid" || fail "the container does not shut down"
	wait "$container_pid" || true
	container_pid=''
}

# Nothing is left of it: processes, cgroups, mounts.
container_end()
{
	if [ -n "${container_pid:-}" ]; then
		kill -KILL "$container_pid" 2>/dev/null || true
		wait "$container_pid" 2>/dev/null || true
		container_pid=''
	fi
	if [ -n "${container_cgroup:-}" ]; then
		wait_until 20 cgroup_is_empty || fail "processes are left in $container_cgroup"
		find "$container_cgroup" -depth -type d -exec rmdir {} +
	fi
	umount -R "$T/container"
}

cgroup_is_empty()
{
	grep -qx 'populated 0' "$container_cgroup/cgroup.events"
}
