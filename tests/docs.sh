#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/docs.sh [TEST…]: the commands and examples of README.md and docs/, run as they are written, on a fresh Debian 12 in a
# container: the project is built and installed there by the README's own commands. Which block is run where is said before
# it, see docs.py; what needs the kernel's NFS server is run by the row "docs" of tests/vm.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=container.sh
. "$lib_dir/container.sh"

documents=(README.md CONTRIBUTING.md)
for f in "$source_dir"/docs/*.md; do
	documents+=("docs/${f##*/}")
done

extract()
{
	mkdir "$T/blocks"
	(cd "$source_dir" && python3 "$lib_dir/docs.py" extract "${documents[@]}" "$T/blocks")
}

test_every_block_says_whether_it_can_be_run()
{
	extract || fail "see tests/docs.py"
}

test_paths_that_are_named_are_there()
{
	(cd "$source_dir" && python3 "$lib_dir/docs.py" paths . "${documents[@]}") || fail "a path leads nowhere"
}

# run_block N: on the machine.
run_block()
{
	local block=$T/blocks/$1 mark where user
	read -r mark <"$block.mark"
	read -r where <"$block.where"
	echo "--- $where: $mark"
	case $mark in
	"run: build") { echo "cd /root/nfsrdma" && cat "$block.sh"; } | in_root bash -eux ;;
	"run: machine") { echo "cd /root/nfsrdma" && cat "$block.sh"; } | in_container bash -eux ;;
	"run: machine as "*)
		user=${mark##* }
		in_container su - "$user" -c 'bash -eux' <"$block.sh"
		;;
	"file: machine "*)
		in_container sh -c 'mkdir -p "${0%/*}" && cat >>"$0"' "${mark##* }" <"$block.sh"
		in_container systemctl daemon-reload
		;;
	esac || fail "$where: status $?"
}

limits[commands_as_they_are_written]=900
test_commands_as_they_are_written()
{
	extract
	mirror_has "$(debian_mirror)" bookworm || skip "the mirror cannot be reached"
	container_make "$BASE_ROOT"
	copy_source "$c/root/nfsrdma"
	# As an installation has them.
	cp /etc/resolv.conf "$c/etc/resolv.conf"
	# Nobody is there to say yes; and what is only recommended must not be needed.
	printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n' >"$c/etc/apt/apt.conf.d/90test"
	in_root apt-get -qq update
	in_root useradd --create-home ann
	mkdir "$c/export"
	chmod 1777 "$c/export"
	# The examples speak of a server, which is here.
	echo '127.0.0.1 server' >>"$c/etc/hosts"
	cat >"$c/etc/systemd/system/exportd.service" <<-'EOF'
		[Service]
		Type=forking
		ExecStart=/usr/local/bin/nfsrdma-exportd /export --no-root-squash
		[Install]
		WantedBy=multi-user.target
	EOF
	in_root systemctl enable exportd
	local mark booted='' ran=0
	for mark in "$T"/blocks/*.mark; do
		case $(cat "$mark") in
		"run: build") [ -z "$booted" ] || fail "$mark: comes too late" ;;
		"run: machine"* | "file: machine"*)
			[ -n "$booted" ] || container_boot
			booted=1
			;;
		*) continue ;;
		esac
		run_block "$(basename "$mark" .mark)"
		ran=$((ran + 1))
	done
	[ "$ran" -gt 5 ] || fail "only $ran blocks were run"
	assert_eq "$(in_container findmnt -n -t fuse.nfsrdma || true)" "" "mounts that the examples leave"
	container_poweroff
	container_end
}

if [ "${1:-}" != --one ]; then
	need_machines docs
fi
tests_main "$@"
