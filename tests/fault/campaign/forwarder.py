#!/usr/bin/python3
"""
A forwarder of unix and tcp connections, as a process of its own, whose links can be cut or delayed.

Each line of standard input is a JSON object. {"link": NAME, "listen": ADDRESS, "target": ADDRESS} adds
a link; an address is a path, or a port of 127.0.0.1. {"link": NAME, "mode": MODE, "ms": N} changes it:

    pass     bytes go through
    cut      connections are closed, new ones too
    hole     nothing is read any more; a peer sees silence, and later everything
    delay    each piece arrives N ms later
    events   the same, but only on connections that subscribe, or follow the replication stream
    swallow  the next N messages of a subscription get lost (the campaign's test of itself)
    misname  in the next N commands that begin with "of", such as "UNLINK grave:", the key's name ends
             in another byte (the same: as an agent would err)
    mishear  the same in what the server says: in commands of the replication stream

Every command is answered by one line on standard output. The end of standard input is the end.
"""
import collections
import json
import os
import re
import selectors
import socket
import sys
import time

PIECE = 256 * 1024
QUEUE = 4 << 20 # bytes held of one direction; then its source is not read any more
SUBSCRIBES = re.compile(rb"(?:subscribe|psync)\r\n", re.I) # to events, or to the replication stream
MESSAGES = (b"*4\r\n$8\r\npmessage\r\n", b"*3\r\n$7\r\nmessage\r\n")


def open_socket(address):
    if isinstance(address, int):
        end = socket.socket()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return end, ("127.0.0.1", address)
    return socket.socket(socket.AF_UNIX), address


def message_length(data, start):
    """Bytes of the RESP array of bulk strings that begins there; None when it is not whole."""
    end = data.find(b"\r\n", start)
    count, at = int(data[start + 1:end]), end + 2
    for _ in range(count):
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        at = end + 2 + int(data[at + 1:end]) + 2
    return at - start if at <= len(data) else None


class Flow:
    """One direction of a connection: from one socket to the other."""

    def __init__(self, connection, source, sink, answers):
        self.connection, self.link = connection, connection.link
        self.source, self.sink, self.answers = source, sink, answers
        self.pieces = collections.deque() # (due, bytes)
        self.held = 0
        self.ended = False

    def wants(self):
        return not self.ended and self.link.mode != "hole" and self.held < QUEUE

    def ready(self, now):
        return bool(self.pieces) and self.pieces[0][0] <= now and self.link.mode != "hole"

    def take(self, now):
        data = self.source.recv(PIECE)
        if not data:
            self.ended = True
            return
        if self.answers and self.link.mode == "swallow":
            data = self.link.swallow(data)
        if self.link.mode == ("mishear" if self.answers else "misname"):
            data = self.link.misname(data)
        if not self.answers and SUBSCRIBES.search(data):
            self.connection.subscribes = True
        late = self.link.mode == "delay" or (self.link.mode == "events" and self.connection.subscribes)
        due = now + (self.link.ms / 1000 if late else 0)
        if self.pieces: # order is kept, whatever the mode was when they came
            due = max(due, self.pieces[-1][0])
        self.pieces.append((due, data))
        self.held += len(data)

    def give(self):
        if not self.pieces: # its connection broke since the wait for it began
            return
        due, data = self.pieces.popleft()
        sent = self.sink.send(data)
        self.held -= sent
        if sent < len(data):
            self.pieces.appendleft((due, data[sent:]))


class Connection:
    def __init__(self, link, client, server):
        self.link = link
        self.subscribes = False
        self.ends = (client, server)
        self.flows = (Flow(self, client, server, False), Flow(self, server, client, True))

    def over(self):
        return any(flow.ended and not flow.pieces for flow in self.flows)

    def close(self):
        for end in self.ends:
            end.close()


class Link:
    def __init__(self, name, listen, target):
        self.name, self.target = name, target
        self.mode, self.ms = "pass", 0
        self.begins = None # of misname and mishear
        self.connections = []
        self.waiting = [] # accepted while nothing goes through
        if isinstance(listen, str) and os.path.exists(listen):
            os.unlink(listen)
        self.listener, address = open_socket(listen)
        self.listener.bind(address)
        self.listener.listen(64)
        self.listener.setblocking(False)

    def change(self, mode, ms, of=""):
        self.mode, self.ms = mode, ms
        if of:
            command, prefix = of.encode().split(b" ")
            self.begins = re.compile(rb"\r\n%s\r\n\$(\d+)\r\n(?=%s)" % (command, prefix))
        if mode == "cut":
            for connection in self.connections:
                connection.close()
            self.connections = []

    def swallow(self, data):
        starts = [at for at in (data.find(text) for text in MESSAGES) if at >= 0]
        if not starts or self.ms <= 0:
            return data
        length = message_length(data, min(starts))
        if length is None:
            return data
        self.ms -= 1
        return data[:min(starts)] + data[min(starts) + length:]

    def misname(self, data):
        """Within one piece: what is cut between two keeps its name."""
        changed = bytearray(data)
        for found in self.begins.finditer(data):
            last = found.end() + int(found.group(1)) - 1
            if self.ms > 0 and last < len(data):
                changed[last] = ord("!")
                self.ms -= 1
        return bytes(changed)

    def accept(self):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        if self.mode == "cut":
            client.close()
            return
        server, address = open_socket(self.target)
        try:
            server.connect(address)
        except OSError:
            client.close()
            server.close()
            return
        client.setblocking(False)
        server.setblocking(False)
        self.connections.append(Connection(self, client, server))


class Forwarder:
    def __init__(self):
        self.links = {}
        self.input = b""

    def command(self, line):
        words = json.loads(line)
        if "listen" in words:
            self.links[words["link"]] = Link(words["link"], words["listen"], words["target"])
        else:
            self.links[words["link"]].change(words["mode"], words.get("ms", 0),
                                             words.get("of", ""))
        sys.stdout.write("done\n")
        sys.stdout.flush()

    def commands(self):
        data = os.read(0, PIECE)
        if not data:
            sys.exit(0)
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            self.command(line)

    def flows(self):
        for link in self.links.values():
            for connection in link.connections:
                for flow in connection.flows:
                    yield connection, flow

    def turn(self):
        now = time.monotonic()
        with selectors.SelectSelector() as waiting:
            wanted, due = {0: [selectors.EVENT_READ, self.commands]}, None
            for link in self.links.values():
                wanted[link.listener] = [selectors.EVENT_READ, link.accept]
            takes, gives = {}, {}
            for connection, flow in self.flows():
                if flow.wants():
                    takes[flow.source] = (connection, flow)
                if flow.ready(now):
                    gives[flow.sink] = (connection, flow)
                elif flow.pieces and flow.link.mode != "hole":
                    due = min(due or now + 1, flow.pieces[0][0])
            for end, (events, _) in wanted.items():
                waiting.register(end, events)
            for end in set(takes) | set(gives):
                waiting.register(end, (selectors.EVENT_READ if end in takes else 0)
                                 | (selectors.EVENT_WRITE if end in gives else 0))
            ready = waiting.select(None if due is None else max(0, due - now))
        self.serve(ready, wanted, takes, gives)

    def serve(self, ready, wanted, takes, gives):
        now = time.monotonic()
        for key, events in ready:
            if key.fileobj in wanted:
                continue
            if events & selectors.EVENT_READ:
                self.guarded(*takes[key.fileobj], lambda flow: flow.take(now))
            if events & selectors.EVENT_WRITE:
                self.guarded(*gives[key.fileobj], lambda flow: flow.give())
        for link in self.links.values():
            for connection in [one for one in link.connections if one.over()]:
                connection.close()
                link.connections.remove(connection)
        for key, _ in ready: # last: a command may close connections
            if key.fileobj in wanted:
                wanted[key.fileobj][1]()

    def guarded(self, connection, flow, act):
        try:
            act(flow)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            for one in connection.flows:
                one.ended = True
                one.pieces.clear()


if __name__ == "__main__":
    forwarder = Forwarder()
    while True:
        forwarder.turn()
