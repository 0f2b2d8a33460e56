"""The control socket spoken by hand: what the tests see does not depend on keywakectl alone."""
import json
import socket

from .process import SLOW


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")
        self.message = error.get("message", "")


class Rpc:
    def __init__(self, path, timeout=30.0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout * SLOW)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.lines = self.socket.makefile("rb")
        self.id = 0

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the daemon closed the control connection")
        return json.loads(line)

    def call(self, method, **params):
        self.id += 1
        request = {"jsonrpc": "2.0", "id": self.id, "method": method}
        if params:
            request["params"] = params
        self.send(json.dumps(request).encode() + b"\n")
        while True:
            answer = self.receive()
            if answer.get("id") == self.id:
                break
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def close(self):
        self.lines.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
