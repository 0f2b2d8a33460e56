"""Ports of this host."""
import random
import socket

RESERVED = [] # sockets that keep ports
# Below those that kernels give to connections (net.ipv4.ip_local_port_range).
FIRST, LAST = 10000, 32000


def free_port(first=FIRST, last=LAST):
    """
    A port that nobody else is given while this process lives, at any address: bound, but not listened on.
    SO_REUSEADDR, which servers set too, lets them bind it. It is set after the bind: with it, two
    processes could reserve one port.
    """
    for _ in range(1000):
        keeper = socket.socket()
        port = random.SystemRandom().randint(first, last)
        try:
            keeper.bind(("", port))
        except OSError:
            keeper.close()
            continue
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        RESERVED.append(keeper)
        return port
    raise OSError(f"1000 ports between {first} and {last} are taken")


def two_ports(apart):
    """Two of them, so far apart."""
    for _ in range(1000):
        port = free_port(last=LAST - apart)
        try:
            return port, free_port(port + apart, port + apart)
        except OSError: # the second one is taken
            continue
    raise OSError(f"no two ports are {apart} apart")
