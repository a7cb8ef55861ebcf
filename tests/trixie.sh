#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the project and runs its unit tests on Debian 13 (trixie), in a chroot that is made once and kept in
# ${CACHE_DIR:-/var/cache/nfsrdma}. Packages come from the mirror that this machine's apt is set to.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=../contrib/packages.sh
. "$source_dir/contrib/packages.sh"
# shellcheck source=container.sh
. "$(dirname "$0")/container.sh"

release=trixie root='' reason='' work=''

skip_all()
{
	result skip $release 0 "$*"
	exit 0
}

fail_all()
{
	result fail $release "$(seconds_since "$started")" "$*"
	exit 1
}

in_trixie()
{
	# Mounts of its own, gone with the last process.
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child sh -c '
		mount --rbind /dev "$1/dev" && mount --make-rslave "$1/dev" &&
		mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" || exit 1
		root=$1
		shift
		exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
			CMOCKA_MESSAGE_OUTPUT=TAP "$@"' sh "$root" "$@"
}

started=$EPOCHREALTIME
LOGS=${LOGS:-$(mktemp -d "$TMPDIR/nfsrdma-logs.XXXXXX")}
[ "$(id -u)" = 0 ] || skip_all "not root"
command -v mmdebstrap >/dev/null || skip_all "no mmdebstrap"
status=0
debian_root $release $release "${packages_build[@]}" || status=$?
[ $status -ne 77 ] || skip_all "$reason"
[ $status -eq 0 ] || fail_all "$reason"
work=$root/build
rm -rf --one-file-system "$work"
mkdir "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
tar -C "$source_dir" --exclude './build*' --exclude ./.git -cf - . | tar -C "$work" -xf -
in_trixie meson setup /build/build /build >"$LOGS/$release.log" 2>&1 &&
	in_trixie ninja -C /build/build >>"$LOGS/$release.log" 2>&1 || {
	tail -30 "$LOGS/$release.log"
	fail_all "does not build, see $LOGS/$release.log"
}
status=0
in_trixie meson test -C /build/build --suite unit --no-rebuild >>"$LOGS/$release.log" 2>&1 || status=$?
while IFS=$'\t' read -r verdict name seconds reason; do
	result "$verdict" "$name" "$seconds" "$reason"
done < <(python3 "$lib_dir/unit_report.py" $release "$work/build/meson-logs/testlog.json" || printf 'fail\t%s\t0\tno report\n' $release)
exit $status
