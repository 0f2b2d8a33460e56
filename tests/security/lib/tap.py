"""Listens on the wire: whatever passes over loopback, as a host on the network that all of it goes through."""
import ctypes
import socket
import struct
import threading
import time

ETHERTYPE_IP = 0x0800
SO_ATTACH_FILTER = 26
SLICE_S, REST_S = 0.1, 2 # between two looks whether it is to end; for what is still in the buffer then
LOAD_HALF, EQUAL, RETURN = 0x28, 0x15, 0x06 # of the kernel's packet filter


def only(ports):
    """A packet filter: IPv4 without options, from or to one of these ports."""
    tests = [(20, port) for port in ports] + [(22, port) for port in ports]
    last = 2 * len(tests)
    program = []
    for number, (offset, port) in enumerate(tests):
        here = 2 * number
        program += [(LOAD_HALF, 0, 0, offset), (EQUAL, last - here - 1, 0, port)]
    program += [(RETURN, 0, 0, 0), (RETURN, 0, 0, 0x40000)]
    # What matches goes to the last instruction, the others to the one before it.
    return b"".join(struct.pack("HBBI", code, yes, no, value) for code, yes, no, value in program)


class Tap:
    """The bytes that were sent from and to these ports, in the order in which they passed. Takes root."""

    def __init__(self, *ports):
        self.heard = bytearray()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        self.program = ctypes.create_string_buffer(only(ports))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                               struct.pack("HL", (len(self.program) - 1) // 8, ctypes.addressof(self.program)))
        self.socket.bind(("lo", ETHERTYPE_IP))
        self.socket.settimeout(SLICE_S)
        self.ends = None # when it is to end at the latest
        self.thread = threading.Thread(target=self.listen, daemon=True)

    def listen(self):
        while self.ends is None or time.monotonic() < self.ends:
            try:
                packet, source = self.socket.recvfrom(1 << 18)
            except TimeoutError:
                if self.ends is not None:
                    return
                continue
            if source[2] != socket.PACKET_OUTGOING: # loopback shows each twice
                words = (packet[0] & 15) * 4
                self.heard += packet[words + (packet[words + 12] >> 4) * 4:]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = time.monotonic() + REST_S
        self.thread.join()
        self.socket.close()
