"""A TCP relay before a server, so that a test can cut it off from some of its peers."""
import selectors
import socket
import threading

CHUNK = 1 << 16
BUFFER_MOST = 1 << 20


class Stream:
    """One direction of a connection."""

    def __init__(self, source, sink):
        self.source, self.sink, self.held = source, sink, b""


class Relay:
    """
    Listens on `port` and passes everything on to the server behind. cut(sources) lets nothing through
    any more from and to peers with these source addresses: no reset, no refusal, as when packets are
    dropped. heal() lets all through again, and resets the connections that were cut.
    """

    def __init__(self, port, behind):
        self.behind = behind
        self.cut_off = set()
        self.pairs = {} # a socket: (its peer, source address)
        self.lock = threading.Lock()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(64)
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def cut(self, sources):
        with self.lock:
            self.cut_off = set(sources)

    def heal(self):
        with self.lock:
            was, self.cut_off = self.cut_off, set()
            for one, (_, source) in list(self.pairs.items()):
                if source in was:
                    try:
                        one.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass

    def close(self):
        self.ended = True
        self.thread.join(10)
        for one in [*self.pairs, self.listener]:
            one.close()
        self.selector.close()

    def run(self):
        self.selector.register(self.listener, selectors.EVENT_READ)
        while not self.ended:
            for key, _ in self.selector.select(0.02):
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.move(key.fileobj)

    def accept(self):
        one, (source, _) = self.listener.accept()
        other = socket.socket()
        try:
            other.connect(self.behind)
        except OSError:
            one.close()
            return
        with self.lock:
            for here, there in ((one, other), (other, one)):
                here.settimeout(5)
                here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.pairs[here] = (there, source)
                self.selector.register(here, selectors.EVENT_READ)

    def move(self, one):
        with self.lock:
            other, source = self.pairs.get(one, (None, None))
            if other is None:
                return
            if source in self.cut_off: # it stays where it is; a spin would take a core
                self.ended or threading.Event().wait(0.001)
                return
            try:
                data = one.recv(CHUNK)
                if data:
                    other.sendall(data)
            except OSError:
                data = b""
            if not data:
                for each in (one, other):
                    self.pairs.pop(each, None)
                    self.selector.unregister(each)
                    each.close()
