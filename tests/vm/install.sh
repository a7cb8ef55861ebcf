#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/vm/install.sh [ROW…]: more rows like those of vm.sh: the Debian packages and the documents in the guest.

# shellcheck source=vm.sh
. "$(dirname "$0")/vm.sh"

# The packages on machines that boot with systemd, in namespaces of the guest: five boots within the row's.
# shellcheck disable=SC2034 # for tests_main
limits[package]=3000
test_package()
{
	prepare_share
	"$source_dir/tests/package.sh" --prepare "$share"
	start_guest package
	finish_guest
}

# What the documents say of setting up a server, as they say it.
test_docs()
{
	prepare_share
	cp -r "$source_dir"/*.md "$source_dir/docs" "$share/"
	start_guest docs
	finish_guest
}

vm_main "$@"
