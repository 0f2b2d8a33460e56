"""A connection that speaks RESP by hand: replies as the bytes that came, and what they mean."""
import socket


class Raw:
    """One connection to a unix socket. No reply is interpreted before it is compared."""

    def __init__(self, path, timeout=60.0):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(encode(words))

    def ask(self, *words):
        """The reply as bytes."""
        self.send(*words)
        return self.reply()

    def reply(self):
        end = self.skip(0)
        reply, self.buffer = self.buffer[:end], self.buffer[end:]
        return reply

    def skip(self, at):
        """The offset after the reply that begins at `at`."""
        line_end = self.find_line(at)
        kind, number = self.buffer[at:at + 1], self.buffer[at + 1:line_end]
        after = line_end + 2
        if kind in b"$=!" and number != b"-1":
            return self.fill(after + int(number) + 2)
        count = int(number) if kind in b"*~>%|" and number != b"-1" else 0
        for _ in range(2 * count if kind in b"%|" else count):
            after = self.skip(after)
        return after

    def find_line(self, at):
        while (end := self.buffer.find(b"\r\n", at)) < 0:
            self.more()
        return end

    def fill(self, length):
        while len(self.buffer) < length:
            self.more()
        return length

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got:
            raise EOFError("the connection was closed")
        self.buffer += got


def encode(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def elements(reply):
    """The elements of an array, set or map as bytes each; of a map, pairs."""
    raw = Raw.__new__(Raw)
    raw.buffer = reply
    at = raw.find_line(0) + 2
    found = []
    while at < len(reply):
        end = raw.skip(at)
        if reply[:1] == b"%":
            end = raw.skip(end)
        found.append(reply[at:end])
        at = end
    return found
