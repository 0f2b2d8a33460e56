"""
A relay between an agent and a proxy: it knows no secret, and hands each message of the handshake on.

It listens at one address and dials another, of any carrier. When the proxy says WELCOME the relay keeps the
connection for itself: `stolen` is then a session by which it reads all that the agent may read.
"""
import socket
import threading

from . import wire


class Relay:
    """
    change: called as change(message, from_agent), returns the bytes to hand on. The agent is given the
    WELCOME only if `tell` is set; it can then not tell this proxy from a real one.
    """

    def __init__(self, at, to, change=None, tell=False):
        self.at, self.to, self.change, self.tell = at, to, change, tell
        self.stolen = None     # a wire.Joined: the attack worked
        self.refusals = []     # numbers of the proxy's reasons
        self.ends = []         # how connections ended that were neither
        self.seen = []         # (from_agent, message)
        self.heard = threading.Condition()
        self.listener = wire.listen(at)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                agent, _ = self.listener.accept()
            except OSError: # closed
                return
            agent.settimeout(10)
            with agent:
                outcome = self.relay(agent)
            with self.heard:
                if isinstance(outcome, wire.Joined):
                    self.stolen = self.stolen or outcome
                elif isinstance(outcome, wire.Refused):
                    self.refusals.append(outcome.reason)
                else:
                    self.ends.append(str(outcome))
                self.heard.notify_all()

    def relay(self, agent):
        """What came of one connection: the stolen session, or why there is none."""
        proxy = None
        try:
            proxy = wire.dial(self.to)
            self.hand_on(agent, proxy, True)   # HELLO
            self.hand_on(proxy, agent, False)  # CHALLENGE
            self.hand_on(agent, proxy, True)   # PROOF
            descriptors = []
            welcome = self.hand_on(proxy, agent if self.tell else None, False, descriptors)
            version = wire.VERSIONS[int.from_bytes(self.seen[-4][1][8:10], "little")]
            return wire.Joined(proxy, wire.carrier_of(self.to), version.facts(welcome), descriptors)
        except (wire.Refused, wire.Ended, OSError, AssertionError) as outcome:
            if proxy:
                proxy.close()
            return outcome

    def hand_on(self, source, target, from_agent, descriptors=None):
        message = wire.receive_message(source, descriptors)
        self.seen.append((from_agent, message))
        if self.change:
            message = self.change(message, from_agent)
        if target:
            target.sendall(message)
        if wire.type_of(message) == wire.REFUSE:
            raise wire.Refused(message)
        return message

    def wait(self, timeout=60.0):
        """Until one connection was relayed to its end, either way. One that broke before is tried again."""
        with self.heard:
            done = self.heard.wait_for(lambda: self.stolen or self.refusals, timeout * wire.SLOW)
        assert done, f"no agent came through to the proxy: {self.ends}"
        return self

    def close(self):
        self.listener.close()
        if self.stolen:
            self.stolen.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tunnel:
    """Hands bytes on, both ways: what an operator's own tunnel or forwarded port does."""

    def __init__(self, at, to):
        self.at, self.to = at, to
        self.sockets = []
        self.listener = wire.listen(at)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = wire.dial(self.to)
            except OSError: # closed, or nobody answers
                return
            far.settimeout(None)
            self.sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    @staticmethod
    def pump(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def drop(self):
        """End the connections that there are; new ones are taken."""
        sockets, self.sockets = self.sockets, []
        for end in sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.drop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
