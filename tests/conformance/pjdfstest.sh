#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/conformance/pjdfstest.sh CHECKOUT DIR [TEST…]: runs pjdfstest, which is not part of this project, as root in a new
# directory below DIR. CHECKOUT is a clone of it that has been built there (autoreconf -ifs && ./configure && make); TESTs are
# files or folders of its tests/, all by default.
#
# Prints what failed, file by file as prove(1) tells it, and ends with the line "pjdfstest COMMIT: N tests, N failed". Exit
# status 0 only if none failed. What all said stays in $LOGS, if that is set.

set -u

usage()
{
	echo "usage: $0 CHECKOUT DIR [TEST…]" >&2
	exit 2
}

[ $# -ge 2 ] || usage
checkout=$(realpath "$1") && dir=$(realpath "$2") || usage
shift 2
[ -x "$checkout/pjdfstest" ] && [ -d "$checkout/tests" ] || {
	echo "$checkout is no built checkout of pjdfstest: there, autoreconf -ifs && ./configure && make" >&2
	exit 2
}
[ "$(id -u)" = 0 ] || {
	echo "pjdfstest has to run as root" >&2
	exit 2
}
command -v prove >/dev/null || {
	echo "there is no prove(1): apt-get install perl" >&2
	exit 2
}

tests=("$checkout/tests")
if [ $# -gt 0 ]; then
	tests=("${@/#/$checkout/tests/}")
fi
commit=$(git -c safe.directory="$checkout" -C "$checkout" describe --always --dirty 2>/dev/null || echo unknown)
log=${LOGS:+$LOGS/pjdfstest.log}
[ -n "$log" ] || log=$(mktemp)
work=$(mktemp -d "$dir/pjdfstest.XXXXXX") || exit 2
# Its users are nobody of this machine, and must reach the directory.
chmod 755 "$work"
status=0
(cd "$work" && prove --recurse --verbose --timer "${tests[@]}") >"$log" 2>&1 || status=$?
rm -rf "$work"

# prove --verbose repeats every check; its summary comes last.
sed -n '/^Test Summary Report/,$p' "$log" | sed "s|$checkout/||"
[ "$status" -eq 0 ] || grep -q '^Test Summary Report' "$log" || tail -5 "$log"
failed=$(grep -v '# TODO' "$log" | grep -c '^not ok')
count=$(sed -n 's/^Files=.*Tests=\([0-9]*\),.*/\1/p' "$log")
[ -n "${LOGS:-}" ] || rm -f "$log"
echo "pjdfstest $commit: ${count:-no} tests, $failed failed"
exit "$status"
