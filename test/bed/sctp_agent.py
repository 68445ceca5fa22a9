"""The SCTP part of an agent, because Node.js has no SCTP. Commands and replies: see agent-protocol.ts."""

import errno
import itertools
import json
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

# linux/in.h. Not every version of the socket module has it.
IPPROTO_SCTP = 132
# linux/in.h, linux/in6.h. Without it, an SCTP socket reports an ICMP error only after its own retries.
RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
# linux/sctp.h: SCTP_RTOINFO, struct sctp_rtoinfo (association, then initial, longest and shortest wait in ms). An ICMP
# error that arrives while connect() holds the socket is lost; the error for the second attempt is reported.
SCTP_RTOINFO = 0
TRY_AGAIN_SOON = struct.pack("IIII", 0, 300, 1000, 300)

# As in source-ports.ts: one for each probe.
SOURCE_PORTS = itertools.cycle(range(11_000, 30_000))

servers = {}
writing = threading.Lock()


def new_socket(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM, IPPROTO_SCTP)


def answer_one(connection, peer, name):
    with connection:
        try:
            connection.settimeout(5)
            if connection.recv(64):
                seen = peer[0].removeprefix("::ffff:")
                answer = {"ok": True, "answeredBy": name, "sourceSeen": seen, "sourcePort": peer[1]}
                connection.sendall(json.dumps(answer).encode() + b"\n")
                # Wait until the client closes the connection: the reply has then arrived.
                connection.recv(64)
        except OSError:
            # The client has disconnected.
            pass


def serve(command):
    listener = new_socket(command["address"])
    listener.bind((command["address"], command["port"]))
    listener.listen(64)

    def accept():
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer_one, args=(connection, peer, command["name"]), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    handle = command["id"]
    servers[handle] = listener
    return {"handle": handle}


def stop(command):
    listener = servers.pop(command["handle"], None)
    if listener is not None:
        # close() alone would leave the thread in accept() and the port in use.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    return {}


def source_address(family, target):
    """The source address that routing selects. Binding limits an association to one path; NAT ignores others."""
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect((target["address"], target["port"]))
        return route.getsockname()[0]


def probe(command):
    target = command["target"]
    try:
        with new_socket(target["address"]) as connection:
            connection.settimeout(command["timeoutMs"] / 1000)
            connection.setsockopt(*RECVERR[connection.family], 1)
            connection.setsockopt(IPPROTO_SCTP, SCTP_RTOINFO, TRY_AGAIN_SOON)
            connection.bind((source_address(connection.family, target), target.get("sourcePort") or next(SOURCE_PORTS)))
            connection.connect((target["address"], target["port"]))
            connection.sendall(b"ask")
            received = connection.recv(4096)
            return json.loads(received) if received else {"ok": False, "code": "CLOSED"}
    except TimeoutError:
        # Also raised for an unreachable peer: ETIMEDOUT.
        return {"ok": False, "code": "TIMEOUT"}
    except OSError as error:
        return {"ok": False, "code": errno.errorcode.get(error.errno, str(error))}


def probe_all(command):
    with ThreadPoolExecutor(command["parallel"]) as pool:
        return list(pool.map(probe, command["probes"]))


DO = {"serve": serve, "stop": stop, "probe": probe, "probeAll": probe_all}


def perform(command):
    try:
        reply = {"id": command["id"], "result": DO[command["do"]](command)}
    except Exception as error:  # noqa: BLE001 - every error is reported to the client.
        reply = {"id": command["id"], "error": repr(error)}
    with writing:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=perform, args=(json.loads(line),), daemon=True).start()
