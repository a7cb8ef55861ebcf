#!/bin/sh
# SPDX-License-Identifier: MIT
#
# nfsrdma-textfile.sh DIR: the counters of this machine's mounts, for the textfile collector of Prometheus's node_exporter
# (--collector.textfile.directory=DIR). To be run each minute: nfsrdma-textfile.timer does that. One file, replaced whole; a
# name's samples of all mounts stand together, as the format wants them.

set -eu
dir=$1
stat=${NFSRDMA_STAT:-nfsrdma-stat}
new=$(mktemp "$dir/.nfsrdma.XXXXXX")
trap 'rm -f "$new"' EXIT

# Mountinfo writes a blank as \040; printf turns it back. A mount that is just going away is left out.
awk '$0 ~ / - fuse\.nfsrdma / { print $5 }' /proc/self/mountinfo | sort -u | while IFS= read -r mountpoint; do
	"$stat" --prometheus -- "$(printf '%b' "$mountpoint")" || :
done | awk '
	/^# HELP / { name = $3; if (!(name in help)) { order[++n] = name; help[name] = $0 } next }
	/^# TYPE / { type[$3] = $0; next }
	{ samples[name] = samples[name] $0 "\n" }
	END { for (i = 1; i <= n; i++) printf "%s\n%s\n%s", help[order[i]], type[order[i]], samples[order[i]] }' >"$new"
chmod 644 "$new"
mv "$new" "$dir/nfsrdma.prom"
trap - EXIT
