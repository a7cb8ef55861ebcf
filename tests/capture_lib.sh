# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the scripts share that capture what goes over the wire.

# start_capture PORT: everything on loopback to and from that TCP port, into $T/capture.pcap.
start_capture()
{
	capture_port=$1
	dumpcap -q -i lo -f "tcp port $1" -B 256 -P -w "$T/capture.pcap" >"$T/dumpcap.log" 2>&1 &
	dumpcap_pid=$!
	capture_runs()
	{
		# The file's header is written once the device has been opened and the filter set.
		[ "$(stat -c %s "$T/capture.pcap" 2>/dev/null || echo 0)" -ge 24 ] || process_ended "$dumpcap_pid"
	}
	wait_until 20 capture_runs || fail "dumpcap does not start"
	! process_ended "$dumpcap_pid" || fail "dumpcap: $(cat "$T/dumpcap.log")"
}

# What has gone over the wire may still be in the kernel's buffer. So one more connection is tried, and the capture ends when
# that is in it.
stop_capture()
{
	timeout 60 python3 - "$capture_port" "$T/capture.pcap" <<-'EOF' || fail "the capture stands still"
		import socket, struct, sys, time
		port, path = int(sys.argv[1]), sys.argv[2]
		s = socket.socket()
		s.bind(("127.0.0.1", 0))
		mine = s.getsockname()[1]
		try:
		    s.connect(("127.0.0.1", port))
		except ConnectionRefusedError:
		    pass
		s.close()
		home = socket.inet_aton("127.0.0.1")
		wanted = home + home + struct.pack(">HH", mine, port)
		with open(path, "rb") as f:
		    seen = b""
		    while wanted not in seen:
		        seen = seen[-len(wanted) :] + f.read(1 << 20)
		        if len(seen) <= len(wanted):
		            time.sleep(0.02)
	EOF
	kill -INT "$dumpcap_pid"
	wait "$dumpcap_pid" || fail "dumpcap: $(cat "$T/dumpcap.log")"
	cat "$T/dumpcap.log"
	grep -qE '/ 0 \(|dropped.*: [0-9]+/0\b' "$T/dumpcap.log" || fail "dumpcap dropped packets, so that nothing can be said"
}
