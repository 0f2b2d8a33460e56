"""A daemon's HTTP, over a unix socket or a port."""
import http.client
import json
import socket


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(address, path, timeout=30, method="GET", **headers):
    """(status, text, headers) of one answer; headers are given as X_Y=value."""
    scheme, rest = address.split("://", 1)
    if scheme == "unix":
        connection = Unix(rest, timeout)
    else:
        host, port = rest.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def status(address, **headers):
    code, text, _ = ask(address, "/status", **headers)
    assert code == 200, text
    return json.loads(text)
