"""Captures written byte by byte, so that a test knows every packet without asking a tool that made it."""

import ipaddress
import struct

CLIENT, SERVER = "192.0.2.10", "198.51.100.20"
CLIENT6, SERVER6 = "2001:db8::10", "2001:db8:1::20"
CLIENT_MAC, SERVER_MAC = "02:00:00:00:00:0a", "02:00:00:00:00:14"
SYN, ACK, PSH, FIN = 0x02, 0x10, 0x08, 0x01


def pcap(frames, *, step=0.001, snap=262144):
    """Return a capture, of each frame so many bytes as ``tcpdump -s`` writes."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1)]
    for index, frame in enumerate(frames):
        seconds, rest = divmod(round(index * step * 1_000_000), 1_000_000)
        piece = frame[:snap]
        parts.append(struct.pack("<IIII", 1_700_000_000 + seconds, rest, len(piece), len(frame)) + piece)
    return b"".join(parts)


def block(order, kind, body):
    """Return a block of a pcapng in one order of bytes (draft-ietf-opsawg-pcapng, section 3.1)."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order):
    """Return the head of a section with one interface of Ethernet."""
    head = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    return head + block(order, 1, struct.pack(f"{order}HHI", 1, 0, 262144))


def packet_block(order, frame, seconds):
    """Return the block of a packet, so long after the first second."""
    ticks = 1_700_000_000_000_000 + round(seconds * 1_000_000)
    size = len(frame)
    return block(
        order, 6, struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, size, size) + frame
    )


def pcapng(frames):
    blocks = (packet_block("<", frame, index * 0.001) for index, frame in enumerate(frames))
    return section("<") + b"".join(blocks)


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def ethernet(payload, kind, *, vlan=None, back=False):
    ends = (CLIENT_MAC, SERVER_MAC) if back else (SERVER_MAC, CLIENT_MAC)
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return mac(ends[0]) + mac(ends[1]) + tag + struct.pack("!H", kind) + payload


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(payload, protocol, source, destination, *, fragment=0, number=1):
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), number, fragment, 64, protocol, 0)
    return head[:10] + struct.pack("!H", checksum(head + addresses)) + addresses + payload


def ipv6(payload, protocol, source, destination):
    addresses = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload


def tcp(payload, source, destination, *, seq=1, ack=1, flags=ACK):
    """Return a TCP segment (no checksum: tshark does not check it by default)."""
    return struct.pack("!HHIIBBHHH", source, destination, seq, ack, 0x50, flags, 8192, 0, 0) + payload


def udp(payload, source, destination):
    return struct.pack("!HHHH", source, destination, 8 + len(payload), 0) + payload


def packet(payload, protocol, source=CLIENT, destination=SERVER, *, back=False, **fields):
    """Return the frame of an IPv4 packet from client to server, or between other ends."""
    return ethernet(ipv4(payload, protocol, source, destination, **fields), 0x0800, back=back)


def arp():
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac(CLIENT_MAC) + ipaddress.IPv4Address(CLIENT).packed
    return ethernet(body + bytes(6) + ipaddress.IPv4Address(SERVER).packed, 0x0806)


def flow(request, reply, *, port=40000, server_port=80, **more):
    """Return a TCP stream of one request and its reply, by ``version`` of IP and perhaps on a ``vlan``."""
    version, vlan = more.get("version", 4), more.get("vlan")

    def frame(payload, flags, seq, ack, back=False):
        ports = (server_port, port) if back else (port, server_port)
        segment = tcp(payload, *ports, seq=seq, ack=ack, flags=flags)
        if version == 6:
            ends = (SERVER6, CLIENT6) if back else (CLIENT6, SERVER6)
            return ethernet(ipv6(segment, 6, *ends), 0x86DD, vlan=vlan, back=back)
        ends = (SERVER, CLIENT) if back else (CLIENT, SERVER)
        return ethernet(ipv4(segment, 6, *ends), 0x0800, vlan=vlan, back=back)

    asked, told = 101 + len(request), 501 + len(reply)
    return [
        frame(b"", SYN, 100, 0),
        frame(b"", SYN | ACK, 500, 101, True),
        frame(b"", ACK, 101, 501),
        frame(request, PSH | ACK, 101, 501),
        frame(reply, PSH | ACK, 501, asked, True),
        frame(b"", FIN | ACK, asked, told),
        frame(b"", FIN | ACK, told, asked + 1, True),
        frame(b"", ACK, asked + 1, told + 1),
    ]


def get(uri=b"/", host=b"shop.example", agent=b"probe/1.0"):
    return b"GET " + uri + b" HTTP/1.1\r\nHost: " + host + b"\r\nUser-Agent: " + agent + b"\r\n\r\n"


def answer(status=b"200 OK", body=b"hello", kind=b"text/plain"):
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d" % (status, kind, len(body))
    return head + b"\r\n\r\n" + body


def dns(source=53000):
    question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\x04shop\x07example\x00\x00\x01\x00\x01"
    return packet(udp(question, source, 53), 17)


def fragments():
    whole = udp(bytes(2000), 5000, 6000)
    return [
        packet(whole[:1480], 17, fragment=0x2000, number=9),
        packet(whole[1480:], 17, fragment=1480 // 8, number=9),
    ]


def unreachable():
    """Return an ICMP error that quotes the UDP packet it answers; the quoted ports are not its own."""
    quoted = ipv4(udp(b"question", 5353, 9999), 17, CLIENT, SERVER)
    body = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    return packet(body, 1, SERVER, CLIENT, back=True)


def tunnels():
    """Return one HTTP request from 192.0.2.77 to 203.0.113.77 in each of four tunnels from client to server."""
    inner = ipv4(tcp(get(), 40077, 80, flags=PSH | ACK), 6, "192.0.2.77", "203.0.113.77")
    vxlan = udp(struct.pack("!II", 0x08000000, 5 << 8) + ethernet(inner, 0x0800), 55555, 4789)
    return {
        "gre": packet(struct.pack("!HH", 0, 0x0800) + inner, 47),
        "vxlan": packet(vxlan, 17),
        "ip in ip": packet(inner, 4),
        "ip in ipv6": ethernet(ipv6(inner, 4, CLIENT6, SERVER6), 0x86DD),
    }


def client_hello(name=b"shop.example"):
    entry = struct.pack("!BH", 0, len(name)) + name
    listed = struct.pack("!H", len(entry)) + entry
    extension = struct.pack("!HH", 0, len(listed)) + listed
    body = b"\x03\x03" + bytes(range(32)) + b"\x00" + struct.pack("!H", 2) + b"\xc0\x2f" + b"\x01\x00"
    body += struct.pack("!H", len(extension)) + extension
    shake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack("!H", len(shake)) + shake
