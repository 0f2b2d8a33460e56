"""The links of a round: addresses that lead through the forwarder, and what becomes of them."""
import json
import os
import subprocess
import sys

from lib.process import die_with_parent

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forwarder.py")


class Links:
    def __init__(self):
        self.popen = None
        self.names = set()
        self.drags = {} # name -> (mode, ms) of delays that it has also when all is well

    def start(self):
        self.popen = subprocess.Popen([sys.executable, "-S", "-E", PROGRAM], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, preexec_fn=die_with_parent)

    def command(self, **words):
        self.popen.stdin.write(json.dumps(words).encode() + b"\n")
        self.popen.stdin.flush()
        if self.popen.stdout.readline() != b"done\n":
            raise RuntimeError(f"the forwarder ended: {words}")

    def add(self, name, listen, target, drag=None):
        if self.popen is None:
            self.start()
        self.command(link=name, listen=listen, target=target)
        self.names.add(name)
        if drag:
            self.drags[name] = drag
            self.heal(name)

    def change(self, name, mode, ms=0, of=""):
        self.command(link=name, mode=mode, ms=ms, of=of)

    def heal(self, name):
        self.change(name, *self.drags.get(name, ("pass", 0)))

    def close(self):
        if self.popen is not None:
            self.popen.stdin.close()
            self.popen.wait(10)
            self.popen.stdout.close()
