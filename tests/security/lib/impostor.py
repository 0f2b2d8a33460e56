"""
One who stands between a local server and the agent that is its primary (mode replica).

`Impostor` listens at the port of a dead agent. The server connects, and takes it for its primary.
`ask_link` poses as the server towards the next agent, with the words that the impostor was told.
"""
import contextlib
import socket
import threading
import time

from .liar import array, bulk, commands
from .process import SLOW, wait_for

PATIENCE = 30 * SLOW


class Impostor:
    """`told` has the words of AUTH and PSYNC, as the server said them."""

    def __init__(self, port):
        self.told = {}
        self.listener = wait_for(lambda: self.bind(port), f"port {port} is not free", 10)
        self.listener.settimeout(PATIENCE)
        self.server = self.listener.accept()[0]
        self.server.settimeout(PATIENCE)
        self.commands = commands(self.server)

    @staticmethod
    def bind(port):
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            return None

    def let_go_of_the_port(self):
        """The server's connection stays."""
        self.listener.close()

    def greet(self):
        """Answer PING, and read until PSYNC or the end."""
        with contextlib.suppress(OSError): # the server ended the connection
            while words := next(self.commands, None):
                name = words[0].upper()
                if name in (b"AUTH", b"PSYNC"):
                    self.told[name] = words
                if name == b"PSYNC":
                    break
                self.server.sendall(b"+PONG\r\n" if name == b"PING" else b"+OK\r\n")
        return self.told

    def lead(self):
        """Go on as the primary of before, and say PING each second: the server is content for ever."""
        self.greet()
        self.server.sendall(b"+CONTINUE %s\r\n" % self.told[b"PSYNC"][1])
        threading.Thread(target=self.keep_alive, daemon=True).start()

    def keep_alive(self):
        with contextlib.suppress(OSError): # it is over
            while True:
                self.server.sendall(command(b"PING"))
                time.sleep(1)

    def is_dropped(self):
        """Has the server ended the connection? What it still says is passed over."""
        self.server.settimeout(0.1)
        try:
            while self.server.recv(4096):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        self.listener.close()
        self.server.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def command(*words):
    return array(*map(bulk, words))


def ask_link(port, told):
    """What the agent answers to one who logs in and asks as the server did; it must not wait long for more."""
    answers = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as link:
        link.settimeout(2 * SLOW)
        try:
            link.sendall(command(*told[b"AUTH"]) + command(b"REPLCONF", b"capa", b"eof") + command(*told[b"PSYNC"]))
            while len(answers) < 1 << 20 and (piece := link.recv(65536)):
                answers += piece
        except OSError: # it sends nothing more, or has closed the connection
            pass
    return answers
