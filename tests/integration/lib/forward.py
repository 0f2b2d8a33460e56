"""A service address that leads to more than one server: each connection goes where a function says."""
import os
import socket
import threading


class Forwarder:
    """
    Looks like a server to a proxy. choose(first): the unix socket for a connection that begins with
    these bytes; None: it is closed. may_pass(bytes): False ends the connection before they are sent
    on. may_return(first): asked before each answer of the server is handed back; it may wait.
    """

    def __init__(self, directory, choose, may_pass=lambda data: True, may_return=lambda first: True):
        self.path = os.path.join(directory, "forward.sock")
        self.address, self.certificates = "unix://" + self.path, {}
        self.choose, self.may_pass, self.may_return = choose, may_pass, may_return
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(50)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        first = client.recv(65536)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.choose(first) or "nowhere")
            server.sendall(first)
        except OSError:
            client.close()
            return
        threading.Thread(target=pump, args=(client, server, self.may_pass), daemon=True).start()
        pump(server, client, lambda data: self.may_return(first))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def pump(source, target, may_pass):
    """Until one of them ends."""
    try:
        while (data := source.recv(65536)) and may_pass(data):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
