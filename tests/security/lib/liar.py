"""
A server that lies: it speaks RESP and answers as a test says.

    liar = Liar(path, {b"HELLO": b"*6500000\\r\\n"})

An answer is bytes, a function of the command's words that returns bytes, or None: the connection is closed.
What has no answer is told +OK. `heard` has all commands, as lists of words.
"""
import os
import socket
import threading

OK = b"+OK\r\n"


class Liar:
    def __init__(self, at, answers=None, greeting=b""):
        """at: the path of a unix socket, or (host, port). greeting: told before any command."""
        self.answers = {name.upper(): answer for name, answer in (answers or {}).items()}
        self.greeting = greeting
        self.heard, self.connections = [], 0
        if isinstance(at, str):
            self.address = "unix://" + at
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(at)
            os.chmod(at, 0o777)
            self.listener.listen(64)
        else:
            self.listener = socket.create_server(at)
            self.address = "tcp://%s:%d" % self.listener.getsockname()[:2]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError: # closed
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            try:
                client.sendall(self.greeting)
                for words in commands(client):
                    self.heard.append(words)
                    answer = self.answer(words)
                    if answer is None:
                        return
                    client.sendall(answer)
            except OSError: # the client has gone
                pass

    def answer(self, words):
        """The longest name that fits: CONFIG GET before CONFIG."""
        for length in (2, 1):
            name = b" ".join(words[:length]).upper()
            if name in self.answers:
                answer = self.answers[name]
                return answer(words) if callable(answer) else answer
        return OK

    def heard_words(self):
        """Every word of every command: what a thief on this socket has."""
        return {word for words in list(self.heard) for word in words}

    def close(self):
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def commands(client):
    """The commands of one connection: arrays of bulk strings, or inline words."""
    stream = client.makefile("rb")
    while line := stream.readline(1 << 16):
        if not line.startswith(b"*"):
            if words := line.split():
                yield words
            continue
        words = []
        for _ in range(int(line[1:])):
            length = int(stream.readline(64)[1:])
            words.append(stream.read(length + 2)[:-2])
        yield words


def bulk(text):
    text = text if isinstance(text, bytes) else text.encode()
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(*items):
    return b"*%d\r\n" % len(items) + b"".join(items)
