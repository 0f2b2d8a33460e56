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


def connect(address, timeout):
    scheme, rest = address.split("://", 1)
    if scheme == "unix":
        return Unix(rest, timeout)
    host, port = rest.rsplit(":", 1)
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def ask(address, path, timeout=30, method="GET", **headers):
    """(status, text, headers) of one answer; headers are given as X_Y=value."""
    connection = connect(address, timeout)
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


def events(address, timeout=30):
    """What /events tells, one after the other, until the caller has enough."""
    connection = connect(address, timeout)
    try:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    finally:
        connection.close()
