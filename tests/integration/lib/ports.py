"""Ports of this host."""
import socket

RESERVED = [] # sockets that keep ports


def free_port(host="127.0.0.1"):
    """
    A port that nobody else is given while this process lives: bound, but not listened on. SO_REUSEADDR,
    which servers set too, lets them bind it by its number; a port chosen by the kernel is another.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind((host, 0))
    RESERVED.append(keeper)
    return keeper.getsockname()[1]
