#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the project and runs its unit tests on Debian 13 (trixie), in a chroot that is made once and kept in
# ${CACHE_DIR:-/var/cache/nfsrdma}. Packages come from the mirror that this machine's apt is set to.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=../contrib/packages.sh
. "$source_dir/contrib/packages.sh"

release=trixie
cache=${CACHE_DIR:-/var/cache/nfsrdma}
root=$cache/$release-$(dpkg --print-architecture)
work=

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

# The place that apt has Debian's main archive from.
mirror()
{
	# shellcheck disable=SC2016 # apt's placeholders
	apt-get indextargets --format '$(SITE) $(ORIGIN) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' |
		awk '$2 == "Debian" && $3 == "main" && $4 !~ /security|updates|backports/ { print $1; exit }'
}

# The chroot is complete once this file says what was put into it.
is_made()
{
	[ "$(cat "$root/.made-of" 2>/dev/null)" = "${packages_build[*]}" ]
}

make_root()
{
	local site
	site=$(mirror)
	[ -n "$site" ] || skip_all "apt knows no Debian mirror"
	echo "making a chroot of Debian 13 in $root"
	rm -rf --one-file-system "$root" "$root.new"
	mkdir -p "$cache"
	if ! timeout 1200 mmdebstrap --variant=apt --include="$(IFS=, && echo "${packages_build[*]}")" \
		--aptopt='Acquire::Retries "3"' $release "$root.new" "$site" >"$LOGS/mmdebstrap.log" 2>&1; then
		rm -rf --one-file-system "$root.new"
		# A mirror that is not there, or does not have it, is no fault of the project; anything else is.
		if ! apt_reaches "$site"; then
			skip_all "the mirror cannot be reached"
		fi
		tail -20 "$LOGS/mmdebstrap.log"
		fail_all "cannot make the chroot, see $LOGS/mmdebstrap.log"
	fi
	mv "$root.new" "$root"
	echo "${packages_build[*]}" >"$root/.made-of"
}

apt_reaches()
{
	timeout 60 /usr/lib/apt/apt-helper download-file "$1/dists/$release/InRelease" "$LOGS/InRelease" >/dev/null 2>&1
}

in_root()
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
is_made || make_root
work=$root/build
rm -rf --one-file-system "$work"
mkdir "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
tar -C "$source_dir" --exclude './build*' --exclude ./.git -cf - . | tar -C "$work" -xf -
in_root meson setup /build/build /build >"$LOGS/$release.log" 2>&1 &&
	in_root ninja -C /build/build >>"$LOGS/$release.log" 2>&1 || {
	tail -30 "$LOGS/$release.log"
	fail_all "does not build, see $LOGS/$release.log"
}
status=0
in_root meson test -C /build/build --suite unit --no-rebuild >>"$LOGS/$release.log" 2>&1 || status=$?
while IFS=$'\t' read -r verdict name seconds reason; do
	result "$verdict" "$name" "$seconds" "$reason"
done < <(python3 "$lib_dir/unit_report.py" $release "$work/build/meson-logs/testlog.json" || printf 'fail\t%s\t0\tno report\n' $release)
exit $status
