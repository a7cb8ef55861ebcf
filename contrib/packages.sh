# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Which Debian packages are needed for what, said once; sourced by contrib/demo.sh and tests/run.sh.
# The lists hold for Debian 12 and 13.

# shellcheck disable=SC2034 # the lists are used by those who source this
packages_build=(gcc libc6-dev meson ninja-build pkgconf libfuse3-dev libnfs-dev libibverbs-dev librdmacm-dev libcmocka-dev
	libncurses-dev)
# To mount: fusermount3, mount.fuse3, and umount.
# shellcheck disable=SC2034
packages_run=(fuse3 mount python3)
# systemtap-sdt-dev has the header for static probes (contrib/trace), without which the build leaves them out.
# shellcheck disable=SC2034
packages_test=(acl git iproute2 rsync systemtap-sdt-dev tshark util-linux)
# llvm-14: llvm-cov and llvm-profdata, for coverage only.
# shellcheck disable=SC2034
packages_fuzz=(clang-14 libclang-rt-14-dev llvm-14)
# gnuplot is used when it is there.
# shellcheck disable=SC2034
packages_bench=(fio tar)

# Prints those of the named packages that are not installed, one a line.
packages_missing()
{
	local p
	for p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

# Installs what is missing of the named packages, quietly. Not root: says what is missing and fails.
packages_install()
{
	local missing
	mapfile -t missing < <(packages_missing "$@")
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" != 0 ]; then
		echo "missing packages; as root: apt-get install ${missing[*]}" >&2
		return 1
	fi
	echo "installing: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	local log
	log=$(mktemp)
	# The lists of a fresh machine are empty or old: fetch them, but go on with what there is if that fails.
	apt-get -qq update >"$log" 2>&1 || true
	if ! apt-get -qq -y --no-install-recommends install "${missing[@]}" >>"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}
