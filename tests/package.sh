#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/package.sh [TEST…]: builds the Debian packages and tries them in containers with a fresh Debian 12 that boots with
# systemd: installing, mounting as people do it, upgrading, removing.
#
# PACKAGES=DIR takes the packages from there instead, and BASE_ROOT=DIR the root directory of the containers; tests/vm uses
# both.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=container.sh
. "$lib_dir/container.sh"

default_limit_s=180
user=64532

# --- building ---------------------------------------------------------------------------------------------------------

# The packages, and the same ones under a higher version, below $PACKAGES.
build_packages()
{
	local deb dir
	copy_source "$PACKAGES/nfsrdma"
	(
		cd "$PACKAGES/nfsrdma"
		# The suite "unit" has run the unit tests, or will.
		DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc
	) >"$LOGS/dpkg-buildpackage.log" 2>&1 || return 1
	mkdir "$PACKAGES/next"
	for deb in "$PACKAGES"/nfsrdma_*.deb "$PACKAGES"/nfsrdma-exportd_*.deb; do
		dir=$PACKAGES/next/$(basename "${deb%%_*}")
		dpkg-deb -R "$deb" "$dir"
		sed -i 's/^Version: .*/&+next/' "$dir/DEBIAN/control"
		dpkg-deb --root-owner-group -b "$dir" "$PACKAGES/next" >/dev/null
		rm -rf "$dir"
	done
}

# --- what the tests share ---------------------------------------------------------------------------------------------

# A container with both packages installed, a server in it that exports /srv/export and /srv/other, and the given lines in
# its fstab. The server is there before anything is mounted.
make_machine()
{
	container_make "$BASE_ROOT"
	mkdir -p "$c/root/packages" "$c/srv/export/sub" "$c/srv/other"
	cp "$PACKAGES"/nfsrdma_*.deb "$PACKAGES"/nfsrdma-exportd_*.deb "$c/root/packages/"
	in_root sh -c 'dpkg -i /root/packages/*.deb' >"$T/dpkg.log" 2>&1 || {
		cat "$T/dpkg.log"
		fail "the packages cannot be installed"
	}
	echo exported >"$c/srv/export/file"
	echo below >"$c/srv/export/sub/file"
	echo other >"$c/srv/other/file"
	chmod 1777 "$c/srv/export"
	cat >"$c/etc/systemd/system/exportd.service" <<-EOF
		[Unit]
		Before=remote-fs-pre.target
		Wants=remote-fs-pre.target
		[Service]
		Type=forking
		ExecStart=/usr/bin/nfsrdma-exportd /srv/export /srv/other --no-root-squash ${server_options:-}
		[Install]
		WantedBy=multi-user.target
	EOF
	in_root systemctl enable exportd >"$T/enable.log" 2>&1
	in_root useradd --uid $user --create-home --key UID_MAX=$user ann
	printf '%s\n' "$@" >"$c/etc/fstab"
}

# As that user, who has logged in elsewhere.
as_ann()
{
	in_container su - ann -c "$1"
}

# assert_mounted DIR SOURCE
assert_mounted()
{
	assert_eq "$(in_container findmnt -n -o SOURCE,FSTYPE -M "$1" | tail -1 | tr -s ' ')" "$2 fuse.nfsrdma" "what is mounted on $1"
}

daemon_of()
{
	in_container sh -c 'exec 2>/dev/null; for p in /proc/[0-9]*; do
		tr "\0" "\n" <"$p/cmdline" | grep -qxF "$0" && grep -qE "^(mount\.)?nfsrdma$" $p/comm && echo "${p#/proc/}"
	done' "$1" || true
}

# end_machine: it shuts down as machines do, and nothing is left.
end_machine()
{
	container_poweroff
	container_end
}

# --- tests ------------------------------------------------------------------------------------------------------------

limits[lintian_finds_no_error]=600
test_lintian_finds_no_error()
{
	command -v lintian >/dev/null || skip "no lintian"
	lintian --allow-root --fail-on error "$PACKAGES"/nfsrdma_*.changes
}

# All files but dpkg's own books, and what programs that run at each installation write anew.
files_of()
{
	(cd "$1" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/systemd -o -path ./root \
		-o -path ./etc/ld.so.cache \) -prune -o -printf '%p %m %U:%G\n' | LC_ALL=C sort)
}

test_purge_leaves_nothing()
{
	container_make "$BASE_ROOT"
	files_of "$c" >"$T/before"
	mkdir -p "$c/root/packages"
	cp "$PACKAGES"/nfsrdma_*.deb "$PACKAGES"/nfsrdma-exportd_*.deb "$c/root/packages/"
	in_root sh -c 'dpkg -i /root/packages/*.deb'
	in_root sh -c 'nfsrdma --version && nfsrdma-probe --help && nfsrdma-exportd --help && nfsrdma-stat --help' >"$T/said"
	in_root sh -c 'test -x /sbin/mount.nfsrdma && test -x /sbin/mount.fuse.nfsrdma'
	in_root dpkg --purge nfsrdma nfsrdma-exportd
	files_of "$c" >"$T/after"
	diff "$T/before" "$T/after"
	container_end
}

# From fstab and by the unit, at boot; another login sees the mounts; the machine goes down without leaving anything unsaved.
test_mounts_at_boot()
{
	make_machine "localhost:/srv/export /mnt nfsrdma _netdev,nofail,nconnect=2 0 0" \
		"localhost:/srv/other /media fuse.nfsrdma _netdev,noauto,x-systemd.automount,ro 0 0"
	mkdir "$c/etc/nfsrdma/srv"
	printf 'SOURCE=localhost:/srv/export/sub\nOPTIONS=arena=16M\n' >"$c/etc/nfsrdma/srv/by-unit.conf"
	in_root systemctl enable 'nfsrdma@srv-by\x2dunit.service'
	container_boot
	in_container systemctl --failed --no-legend | tee "$T/failed"
	assert_eq "$(grep -c nfsrdma "$T/failed" || true)" 0 "failed units of ours"
	assert_mounted /mnt localhost:/srv/export
	assert_mounted /srv/by-unit localhost:/srv/export/sub
	assert_eq "$(as_ann 'cat /mnt/file')" exported
	assert_eq "$(as_ann 'cat /srv/by-unit/file')" below
	assert_eq "$(as_ann 'cat /media/file')" other
	assert_mounted /media localhost:/srv/other
	assert_eq "$(in_container systemctl show -p ActiveState,SubState,StatusText 'nfsrdma@srv-by\x2dunit' | sort)" \
		$'ActiveState=active\nStatusText=Mounted\nSubState=running'
	as_ann 'echo by ann >/mnt/new'
	in_container dd if=/dev/urandom of=/srv/by-unit/large bs=1M count=20 status=none
	end_sum=$(in_container sha256sum </dev/null /srv/by-unit/large | cut -d' ' -f1)
	# container_poweroff ends the namespaces; what the server had is in the changes of the root directory.
	container_poweroff
	assert_eq "$(cat "$c/srv/export/new")" "by ann"
	assert_eq "$(stat -c %u "$c/srv/export/new")" $user
	assert_eq "$(sha256sum <"$c/srv/export/sub/large" | cut -d' ' -f1)" "$end_sum" "what was written before the end"
	container_end
}

# A daemon that runs goes on through an upgrade; removing the package ends the unit's mounts and no others.
test_upgrade_and_removal()
{
	make_machine "localhost:/srv/export /mnt nfsrdma _netdev 0 0"
	printf 'SOURCE=localhost:/srv/export\n' >"$c/etc/nfsrdma/media.conf"
	in_root systemctl enable nfsrdma@media
	container_boot
	assert_mounted /mnt localhost:/srv/export
	assert_mounted /media localhost:/srv/export
	local by_fstab by_unit
	by_fstab=$(daemon_of /mnt) by_unit=$(daemon_of /media)
	[ -n "$by_fstab" ] && [ -n "$by_unit" ] || fail "no daemons"
	# Whoever has a file open notices nothing.
	mkdir "$c/root/next"
	cp "$PACKAGES"/next/*.deb "$c/root/next/"
	in_container sh -c 'exec 3>/mnt/across && echo before >&3 && dpkg -i /root/next/*.deb && echo after >&3' >"$T/upgrade.log" 2>&1 || {
		cat "$T/upgrade.log"
		fail "the upgrade failed"
	}
	in_container dpkg-query -W nfsrdma | grep -q '+next$' || fail "not upgraded"
	assert_eq "$(in_container cat /srv/export/across)" $'before\nafter'
	assert_eq "$(daemon_of /mnt) $(daemon_of /media)" "$by_fstab $by_unit" "daemons after the upgrade"
	assert_eq "$(as_ann 'cat /media/file')" exported
	in_container dpkg --purge nfsrdma nfsrdma-exportd >"$T/purge.log" 2>&1
	cat "$T/purge.log"
	assert_fails in_container findmnt -M /media
	assert_eq "$(daemon_of /media)" "" "daemon of the unit after the removal"
	assert_mounted /mnt localhost:/srv/export
	in_container umount /mnt
	in_container test ! -e /usr/bin/nfsrdma
	end_machine
}

# The unit's daemon is killed: the dead mount goes, and a new one comes. Stopping the unit unmounts.
test_unit_restarts_a_killed_daemon()
{
	make_machine
	printf 'SOURCE=localhost:/srv/export\n' >"$c/etc/nfsrdma/media.conf"
	sed -i 's/^RestartSec=.*/RestartSec=0/' "$c/usr/lib/systemd/system/nfsrdma@.service"
	container_boot
	in_container systemctl start nfsrdma@media
	local first
	first=$(daemon_of /media)
	in_container sh -c "kill -KILL $first"
	is_replaced()
	{
		local now
		now=$(daemon_of /media)
		[ -n "$now" ] && [ "$now" != "$first" ] && [ "$(as_ann 'cat /media/file' 2>/dev/null)" = exported ]
	}
	wait_until 60 is_replaced || fail "no new mount: $(in_container systemctl status nfsrdma@media 2>&1 | tail -5)"
	in_container systemctl stop nfsrdma@media
	assert_fails in_container findmnt -M /media
	assert_eq "$(in_container systemctl show -p Result nfsrdma@media)" Result=success
	# The reason why a start failed is in its status.
	sed -i 's/export/not-exported/' "$c/etc/nfsrdma/media.conf"
	assert_fails in_container systemctl start nfsrdma@media
	has_failed()
	{
		in_container journalctl -u nfsrdma@media | grep -q 'not-exported'
	}
	wait_until 20 has_failed || fail "no word of the reason"
	in_container systemctl stop nfsrdma@media
	end_machine
}

# mount(8) with both names of the type, with what it passes from fstab, and by an ordinary user.
test_mount_by_mount()
{
	server_options='--listen ::'
	make_machine "[::1]:/srv/export /mnt nfsrdma noauto,_netdev,nofail,x-systemd.requires=exportd.service,comment=x,noatime,retry=1 0 0" \
		"localhost:/srv/export /home/ann/data nfsrdma noauto,user 0 0"
	container_boot
	in_container mount /mnt
	assert_mounted /mnt '[::1]:/srv/export'
	in_container findmnt -n -o OPTIONS /mnt | grep -q 'nosuid,nodev,noatime' || fail "options: $(in_container findmnt -n -o OPTIONS /mnt)"
	in_container umount /mnt
	for type in nfsrdma fuse.nfsrdma; do
		# Several exports of one server, and a directory below one.
		in_container mount -t $type localhost:/srv/export/sub /mnt -o ro
		in_container mount -t $type localhost:/srv/other /media
		assert_eq "$(in_container cat /mnt/file /media/file)" $'below\nother'
		assert_fails in_container touch /mnt/new
		in_container umount /mnt /media
	done
	in_container mount -f -t nfsrdma localhost:/srv/export /mnt | grep -q '^would mount localhost:/srv/export on /mnt' ||
		fail "mount -f does not say what it would do"
	assert_fails in_container findmnt -M /mnt
	in_container mount -s -t nfsrdma localhost:/srv/export /mnt -o nosuchoption
	in_container umount /mnt
	assert_fails in_container mount -t nfsrdma localhost:/srv/export /mnt -o nosuchoption 2>"$T/err"
	grep -q nosuchoption "$T/err" || fail "says: $(cat "$T/err")"
	# An ordinary user, on a directory of his.
	as_ann 'mkdir data && mount data && echo mine >data/anns && umount data'
	assert_eq "$(stat -c %u "$c/srv/export/anns")" $user
	in_container nfsrdma-probe localhost >"$T/listing"
	grep -q '^exports *.*/srv/export$' "$T/listing" && grep -q '/srv/other$' "$T/listing" || fail "no listing: $(cat "$T/listing")"
	end_machine
}

test_autofs()
{
	[ -c /dev/autofs ] || skip "no autofs in the kernel"
	make_machine
	cp "$c/usr/share/doc/nfsrdma/examples/auto.nfsrdma" "$c/etc/auto.nfsrdma"
	sed -i 's|server:/export|localhost:/srv/export|' "$c/etc/auto.nfsrdma"
	echo '/net-rdma /etc/auto.nfsrdma --timeout=600' >"$c/etc/auto.master.d/nfsrdma.autofs"
	container_boot
	assert_eq "$(as_ann 'cat /net-rdma/data/file /net-rdma/sub/file')" $'exported\nbelow'
	assert_mounted /net-rdma/data localhost:/srv/export
	assert_mounted /net-rdma/sub localhost:/srv/export/sub
	end_machine
}

# The example for containers: an ordinary user, no setuid program.
test_container_of_an_ordinary_user()
{
	make_machine
	in_root install -d -o ann -g ann /srv/export/anns
	chmod u-s "$c/usr/bin/fusermount3"
	container_boot
	as_ann '/usr/share/doc/nfsrdma/examples/container.sh localhost:/srv/export rw sh -c "cat /mnt/file && echo hello >/mnt/anns/new"' \
		>"$T/out"
	grep -qx exported "$T/out" || fail "says: $(cat "$T/out")"
	assert_eq "$(cat "$c/srv/export/anns/new")" hello
	assert_eq "$(stat -c %u "$c/srv/export/anns/new")" $user
	assert_fails in_container findmnt -M /mnt
	end_machine
}

# complete LINE: what bash would offer behind it, one a line.
complete()
{
	in_root bash -c '
		. /usr/share/bash-completion/bash_completion
		_completion_loader "${1%% *}"
		# As readline has it: words are broken at "=" and ":" too.
		COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
		eval "COMP_WORDS=($(sed "s/[=:]/ & /g" <<<"$1"))"
		[[ $1 != *" " ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		compopt() { :; }
		"$(complete -p "${1%% *}" | sed "s/.* -F \([^ ]*\).*/\1/")" "${1%% *}"
		printf "%s\n" "${COMPREPLY[@]}"' bash "$1" | LC_ALL=C sort
}

test_completion()
{
	container_make "$BASE_ROOT"
	mkdir -p "$c/root/packages"
	cp "$PACKAGES"/nfsrdma_*.deb "$PACKAGES"/nfsrdma-exportd_*.deb "$c/root/packages/"
	in_root sh -c 'dpkg -i /root/packages/*.deb' >"$T/dpkg.log" 2>&1
	assert_eq "$(complete 'nfsrdma s:/e /mnt -o memr')" memreg=
	assert_eq "$(complete 'nfsrdma s:/e /mnt -o ro,memreg=')" $'auto\ndynamic\npersistent\nwindow'
	assert_eq "$(complete 'nfsrdma s:/e /mnt -o memreg=w')" window
	assert_eq "$(complete 'nfsrdma s:/e /mnt -o ro,nosu')" ro,nosuid
	assert_eq "$(complete 'nfsrdma --d')" --dry-run
	assert_eq "$(complete 'nfsrdma-stat --j')" --json
	assert_eq "$(complete 'nfsrdma-probe localhost -o dev')" $'dev\ndevice='
	assert_eq "$(complete 'nfsrdma-exportd --no-r')" --no-root-squash
	assert_eq "$(complete 'nfsrdma-exportd --device s')" softiwarp
	assert_eq "$(complete 'mount.nfsrdma s:/e /us')" /usr
	# zsh's is read, and known for each command.
	in_root zsh -c 'autoload -U compinit && compinit -u && for c in nfsrdma nfsrdma-stat nfsrdma-probe nfsrdma-exportd; do
		[[ ${_comps[$c]} == _nfsrdma ]] || exit 1; done && autoload -Uz +X _nfsrdma'
	container_end
}

# --- running them -----------------------------------------------------------------------------------------------------

if [ "${1:-}" != --one ]; then
	started=$EPOCHREALTIME
	need_machines package
	# --prepare DIR: what a machine without a mirror needs to run these tests.
	if [ "${1:-}" = --prepare ]; then
		mkdir "$2/packages"
		PACKAGES=$2/packages
		build_packages || { tail -20 "$LOGS/dpkg-buildpackage.log" >&2 && exit 1; }
		rm -rf "$PACKAGES/nfsrdma"
		tar -C "$BASE_ROOT" --one-file-system -cf "$2/machine.tar" .
		exit 0
	fi
	if [ -z "${PACKAGES:-}" ]; then
		PACKAGES=$(mktemp -d "$TMPDIR/nfsrdma-packages.XXXXXX")
		trap 'rm -rf "$PACKAGES"' EXIT
		build_packages || {
			tail -20 "$LOGS/dpkg-buildpackage.log"
			result fail package/build "$(seconds_since "$started")" "see $LOGS/dpkg-buildpackage.log"
			exit 1
		}
		result pass package/build "$(seconds_since "$started")"
	fi
	export PACKAGES
fi
tests_main "$@"
