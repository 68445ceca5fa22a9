"""Peers that behave badly, until they are killed.

listen ADDRESS: listens at ports 9001 (says nothing; also over UDP), 9002 (resets), 9003 (sends without end).
connect ADDRESS PORT COUNT say|silent SOURCE...: so many connections that read nothing; some send all that is taken.
datagrams ADDRESS PORT COUNT SOURCE...: a datagram from each of so many addresses and ports, by a raw socket.
Prints "begun" when it has done so.
"""
import resource, selectors, socket, struct, sys

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40_000, 40_000))
except (ValueError, PermissionError):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
CHUNK = bytes(65536)
events = selectors.DefaultSelector()


def say(text):
    print(text, flush=True)


def send_all_that_is_taken(peer):
    try:
        while True:
            peer.send(CHUNK)
    except BlockingIOError:
        pass
    except OSError:
        events.unregister(peer)


def listen(address):
    unread = socket.socket(type=socket.SOCK_DGRAM)
    unread.bind((address, 9001))
    kept = [unread]
    for port in (9001, 9002, 9003):
        server = socket.create_server((address, port), backlog=4096)
        server.setblocking(False)
        events.register(server, selectors.EVENT_READ, port)
    say("begun")
    while True:
        for key, _ in events.select():
            if key.data is None:
                send_all_that_is_taken(key.fileobj)
                continue
            peer, _ = key.fileobj.accept()
            peer.setblocking(False)
            if key.data == 9002:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
            else:
                kept.append(peer)
            if key.data == 9003:
                events.register(peer, selectors.EVENT_WRITE, None)


def connect(address, port, count, manner, *sources):
    kept = []
    for number in range(int(count)):
        peer = socket.socket()
        peer.bind((sources[number % len(sources)], 0))
        try:
            peer.connect((address, int(port)))
        except ConnectionResetError:
            continue
        peer.setblocking(False)
        kept.append(peer)
        if manner == "say":
            events.register(peer, selectors.EVENT_WRITE, None)
            send_all_that_is_taken(peer)
    say("begun")
    while True:
        for key, _ in events.select():
            send_all_that_is_taken(key.fileobj)


def datagrams(address, port, count, *sources):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    to = socket.inet_aton(address)
    ports = int(count) // len(sources) + 1
    for number in range(int(count)):
        source = sources[number // ports]
        udp = struct.pack("!HHHH", 1024 + number % ports, int(port), 9, 0) + b"x"
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + socket.inet_aton(source) + to
        try:
            raw.sendto(ip + udp, (address, 0))
        except OSError:
            pass
    say("begun")


{"listen": listen, "connect": connect, "datagrams": datagrams}[sys.argv[1]](*sys.argv[2:])
