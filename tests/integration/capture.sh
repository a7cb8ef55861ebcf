#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What the wire carried during the demo, told by a program that is not ours: it must decode as MPA, DDP/RDMAP,
# RPC-over-RDMA and NFS, without a malformed message and without a gap, and its counts must be those of the client.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../capture_lib.sh
. "$(dirname "$0")/../capture_lib.sh"

# A counter that the client has kept.
ours()
{
	awk -v name="$1" '$1 == name && !seen { print $2; seen = 1 } END { exit !seen }' "$T/statistics" || fail "the client counts no $1"
}

limits[demo_decodes_and_counts_agree]=300
test_demo_decodes_and_counts_agree()
{
	local port
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	start_capture "$port"
	"$source_dir/contrib/demo.sh" --once --port "$port" --statistics "$T/statistics" || fail "the demo failed"
	stop_capture

	# The streams put in order and cut at the borders of the MPA frames, and read in two passes, as the dissectors need it.
	# A byte that was not captured is an error there already.
	local frames_out frames_in repeated
	python3 "$lib_dir/integration/fpdu_split.py" "$port" "$T/capture.pcap" "$T/cut.pcap" >"$T/cut" || fail "the capture has a gap"
	read -r _ frames_out _ frames_in _ repeated <"$T/cut"
	echo "bytes that TCP sent again: $repeated"
	tshark -n -2 -r "$T/cut.pcap" -T fields -E occurrence=a -E aggregator=, -e frame.number -e tcp.dstport -e iwarp_mpa.ulpdulength \
		-e iwarp_rdma.opcode -e rpcordma.xid -e rpc.msgtyp -e _ws.malformed -e tcp.analysis.lost_segment -e nfs.procedure_v3 -e nfs.count3 \
		>"$T/fields" 2>"$T/tshark.log" || fail "tshark: $(tail -3 "$T/tshark.log")"
	# The data of a READ is placed without the padding that XDR has for it (RFC 8166 section 3.4.6.2); tshark 4.0 looks for
	# it all the same, and calls just those NFS replies malformed whose data need some.
	awk -F '\t' -v port="$port" '
		function many(s) { return s == "" ? 0 : split(s, parts, ",") }
		{
			to_server = ($2 == port)
			frames[to_server] += many($3)
			messages[to_server] += many($5)
			n = split($6, types, ",")
			for (i = 1; i <= n; i++)
				rpc[types[i]]++
			unpadded = ($6 == 1 && $9 == 6 && $10 % 4)
			odd += unpadded
			malformed += ($7 != "" && !unpadded)
			lost += ($8 != "")
			undecoded += (many($3) != many($4))
		}
		END {
			print "frames_out", frames[1]
			print "frames_in", frames[0]
			print "messages_out", messages[1]
			print "messages_in", messages[0]
			print "calls", rpc[0]
			print "replies", rpc[1]
			print "malformed", malformed + 0
			print "unpadded", odd + 0
			print "lost", lost + 0
			print "undecoded", undecoded + 0
		}' "$T/fields" >"$T/theirs"
	cat "$T/theirs"
	theirs()
	{
		awk -v name="$1" '$1 == name { print $2 }' "$T/theirs"
	}
	if [ "$(theirs malformed)" != 0 ]; then
		# Worth a look: the log names the messages, and the capture stays with it.
		tshark -n -2 -r "$T/cut.pcap" -Y '_ws.malformed && !(nfs.procedure_v3 == 6)' 2>/dev/null | head -20
		awk -F '\t' '$7 != "" && !($6 == 1 && $9 == 6 && $10 % 4)' "$T/fields" | head -20
		cp "$T/capture.pcap" "$LOGS/"
	fi
	assert_eq "$(theirs malformed)" 0 "malformed messages"
	assert_eq "$(theirs lost)" 0 "gaps in the TCP streams"
	assert_eq "$(theirs undecoded)" 0 "MPA frames that are no DDP/RDMAP"
	assert_eq "$(theirs frames_out)" "$frames_out" "MPA frames to the server that tshark decodes"
	assert_eq "$(theirs frames_in)" "$frames_in" "MPA frames from the server that tshark decodes"
	[ "$(theirs calls)" -gt 1000 ] || fail "only $(theirs calls) calls: that was no demo"
	assert_eq "$(theirs messages_out)" "$(ours sends)" "RPC-over-RDMA messages to the server"
	assert_eq "$(theirs messages_in)" "$(ours replies)" "RPC-over-RDMA messages from the server"
	assert_eq "$(theirs calls)" "$(ours calls)" "RPC calls"
	assert_eq "$(theirs replies)" "$(ours replies)" "RPC replies"
	assert_eq "$(theirs frames_out)" "$(ours frames_out)" "MPA frames to the server"
	assert_eq "$(theirs frames_in)" "$(ours frames_in)" "MPA frames from the server"
	# Tshark says of each frame whether its CRC is right.
	assert_eq "$(tshark -n -2 -r "$T/cut.pcap" -O iwarp_mpa 2>/dev/null | grep -c 'Bad CRC32')" 0 "frames with a bad CRC"
}

tests_main "$@"
