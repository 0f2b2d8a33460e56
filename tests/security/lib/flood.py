"""
Floods, and the honest newcomers among them. Each is a process of its own, so that neither the test nor the
other side slows it down.

    with Flood("hello", address, rate=300) as flood:
        times = newcomers(address, 70)
    assert flood.made > 0

Kinds: hello (a connection that says HELLO and then nothing), silent (a connection that says nothing), control
(a client of a control socket that says nothing: the address is its path).
"""
import json
import os
import socket
import subprocess
import sys
import time

if __package__:
    from .process import SLOW, die_with_parent
else: # run as a program, see below
    HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(HERE, "..", "..", "integration"))
    import lib
    lib.__path__.append(HERE)
    from lib.process import SLOW, die_with_parent

from lib import wire

PATIENCE_S = 1 # of a newcomer; what takes longer counts as not let in
HELD_MAX = 900 # connections that one flood keeps open; the oldest is closed first


class Flood:
    """So many connections a second, until the block ends. `made`, `refused`: how many, afterwards."""

    def __init__(self, kind, address, rate=300, name="flood", secret=b"", source=None):
        self.words = json.dumps([kind, address, rate, name, secret.hex(), source])
        self.made = self.refused = 0
        self.process = None

    def __enter__(self):
        self.process = program("flood", self.words)
        assert self.process.stdout.readline() == "ready\n", "the flood did not begin"
        return self

    def __exit__(self, *_):
        self.process.stdin.close() # its sign to end
        self.made, self.refused = json.loads(self.process.stdout.readline())
        self.process.wait(30)
        self.process.stdout.close()


def newcomers(address, count, name="honest", secret=b"", pause_s=0.02):
    """Honest agents that join one after the other: the milliseconds from connect to WELCOME, None: not let in."""
    done = program("newcomers", json.dumps([address, count, name, secret.hex(), pause_s]))
    out, _ = done.communicate(timeout=(30 + count * 5) * SLOW)
    assert done.returncode == 0, out
    return json.loads(out)


def program(what, words):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), what, words], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)


def opened(address, source):
    """A connection that is being made; nothing waits for it."""
    if "://" not in address:
        address = "shm://" + address
    unix = wire.carrier_of(address) == wire.SHM
    made = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    if source:
        made.bind((source, 0))
    made.settimeout(0.5)
    made.connect(wire.endpoint(address))
    made.setblocking(False)
    return made


def told_to_end():
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def run_flood(kind, address, rate, name, secret, source):
    version = wire.spoken_by(address) if kind == "hello" else None
    held, made, refused = [], 0, 0
    begun = time.monotonic()
    os.set_blocking(0, False)
    print("ready", flush=True)
    while not told_to_end():
        due = int((time.monotonic() - begun) * rate)
        while made + refused < due:
            try:
                connection = opened(address, source)
                if kind == "hello":
                    claims = wire.Claims(name, secret, proves=1) # else it is refused at once
                    connection.send(version.hello(claims, connection, address))
                held.append(connection)
                made += 1
            except OSError:
                refused += 1
            if len(held) > HELD_MAX:
                held.pop(0).close()
        time.sleep(0.002)
    print(json.dumps([made, refused]), flush=True)


def run_newcomers(address, count, name, secret, pause_s):
    version = wire.spoken_by(address)
    times = []
    for number in range(count):
        begun = time.monotonic()
        try:
            wire.join(address, f"{name}-{number}", secret, version, timeout=PATIENCE_S).close()
            times.append((time.monotonic() - begun) * 1000)
        except (wire.Refused, wire.Ended, OSError):
            times.append(None)
        time.sleep(pause_s)
    print(json.dumps(times))


def main():
    words = json.loads(sys.argv[2])
    if sys.argv[1] == "flood":
        kind, address, rate, name, secret, source = words
        run_flood(kind, address, rate, name, bytes.fromhex(secret), source)
    else:
        address, count, name, secret, pause_s = words
        run_newcomers(address, count, name, bytes.fromhex(secret), pause_s)


if __name__ == "__main__":
    main()
