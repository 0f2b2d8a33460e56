"""A connection that speaks memcached's text and meta protocols by hand: replies as the bytes that came."""
import base64
import socket


class Raw:
    def __init__(self, path, timeout=60.0):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stream.close()
        self.socket.close()

    def send(self, request):
        self.socket.sendall(request)

    def line(self):
        line = self.stream.readline()
        if not line:
            raise EOFError("the connection was closed")
        return line

    def block(self, length):
        block = self.stream.read(length + 2)
        if len(block) != length + 2:
            raise EOFError("the connection was closed")
        return block

    def reply(self):
        """One reply, whole: of get up to END or an error, of mg with its value."""
        reply = b""
        while True:
            line = self.line()
            reply += line
            words = line.split()
            if words[:1] == [b"VALUE"]:
                reply += self.block(int(words[3]))
                continue
            if words[:1] == [b"VA"]:
                reply += self.block(int(words[1]))
            elif words[:1] == [b"STAT"]:
                continue
            return reply

    def ask(self, request):
        self.send(request)
        return self.reply()


def in_base64(key):
    return base64.b64encode(key)
