"""The part of an agent that speaks SCTP, which Node cannot: the commands and replies of agent-protocol.ts, one JSON object a line."""

import errno
import json
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

# Not in the socket module under this name everywhere: linux/in.h.
IPPROTO_SCTP = 132
# linux/in.h, linux/in6.h. Without it an SCTP socket keeps an ICMP refusal to itself until its own attempts have ended.
RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
# linux/sctp.h: SCTP_RTOINFO, struct sctp_rtoinfo (association, then initial, longest and shortest wait in ms). A refusal that
# arrives while connect() still holds the socket is lost: it is the second attempt's that is heard of.
SCTP_RTOINFO = 0
TRY_AGAIN_SOON = struct.pack("IIII", 0, 300, 1000, 300)

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
                # The client ends first: what was sent is then known to have arrived.
                connection.recv(64)
        except OSError:
            # A client that has gone is no concern of the server's.
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
        # close() alone would leave the thread in accept(), and the port taken.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    return {}


def source_address(family, target):
    """The address that the kernel would choose. Bound to one, an association has one path: a second one is never translated."""
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
            connection.bind((source_address(connection.family, target), target.get("sourcePort", 0)))
            connection.connect((target["address"], target["port"]))
            connection.sendall(b"ask")
            received = connection.recv(4096)
            return json.loads(received) if received else {"ok": False, "code": "CLOSED"}
    except TimeoutError:
        # Also what an unreachable peer ends in: ETIMEDOUT.
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
    except Exception as error:  # noqa: BLE001 - whatever it is, the other end must hear of it.
        reply = {"id": command["id"], "error": repr(error)}
    with writing:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=perform, args=(json.loads(line),), daemon=True).start()
