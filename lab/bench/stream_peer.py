"""Ends of TCP connections for the bench of forwarders.

serve: at a port of 127.0.0.1, which it prints, answers each byte, but takes all that follows an "S" without an answer.
The others connect to an ADDRESS and a PORT and print what took how long:
connects ADDRESS PORT COUNT: so many connections one after the other, each with one byte and its answer: seconds.
pings ADDRESS PORT COUNT: so many bytes and answers on one connection: a line with the microseconds of each.
stream ADDRESS PORT BYTES COUNT: so many bytes in all on so many connections at once: seconds.
idle ADDRESS PORT COUNT: so many connections that stay after a byte and its answer; prints "open", until it is killed.
"""
import selectors, socket, sys, threading, time

BUFFER = bytearray(1 << 18)


def serve():
    server = socket.create_server(("127.0.0.1", 0), backlog=4096)
    events = selectors.DefaultSelector()
    events.register(server, selectors.EVENT_READ)
    swallowing = set()
    print(server.getsockname()[1], flush=True)
    while True:
        for key, _ in events.select():
            peer = key.fileobj
            if peer is server:
                peer, _ = server.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                events.register(peer, selectors.EVENT_READ)
                continue
            try:
                length = peer.recv_into(BUFFER)
            except OSError:
                length = 0
            if length == 0:
                events.unregister(peer)
                swallowing.discard(peer)
                peer.close()
            elif peer not in swallowing and BUFFER[0] == ord("S"):
                swallowing.add(peer)
            elif peer not in swallowing:
                peer.send(BUFFER[:length])


def connected(address, port):
    peer = socket.create_connection((address, int(port)))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def ask(peer):
    peer.send(b"x")
    if peer.recv(1) != b"x":
        raise SystemExit("the connection was closed")


def connects(address, port, count):
    start = time.perf_counter()
    for _ in range(int(count)):
        with connected(address, port) as peer:
            ask(peer)
    print(time.perf_counter() - start)


def pings(address, port, count):
    peer = connected(address, port)
    took = []
    for _ in range(int(count)):
        start = time.perf_counter()
        ask(peer)
        took.append((time.perf_counter() - start) * 1e6)
    print(*took)


def stream(address, port, size, count):
    def send():
        with connected(address, port) as peer:
            left = int(size) // int(count)
            peer.sendall(b"S")
            while left > 0:
                left -= peer.send(memoryview(BUFFER)[: min(left, len(BUFFER))])
            peer.shutdown(socket.SHUT_WR)
            peer.recv(1)

    start = time.perf_counter()
    threads = [threading.Thread(target=send) for _ in range(int(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(time.perf_counter() - start)


def idle(address, port, count):
    kept = [connected(address, port) for _ in range(int(count))]
    for peer in kept:
        ask(peer)
    print("open", flush=True)
    time.sleep(3600)


globals()[sys.argv[1]](*sys.argv[2:])
