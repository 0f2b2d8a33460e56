"""
The protocol of the carriers, spoken by hand. It is written from proto/remote/handshake.h and frame.h, so that
a test does not believe the code it tests.

Both wire versions are here: 2 is the handshake of version 0.1. `join` asks the proxy which one it speaks.
"""
import array
import hashlib
import hmac
import os
import socket
import struct
from dataclasses import dataclass, field

from .process import SLOW

MAGIC = 0x3148574B  # "KWH1"
HELLO, CHALLENGE, PROOF, WELCOME, REFUSE = 1, 2, 3, 4, 5
HEADER = struct.Struct("<IHH")
MESSAGE_MAX = 256

REFUSED_LAYOUT, REFUSED_SECRET_UNKNOWN, REFUSED_SECRET_REQUIRED, REFUSED_NAME, REFUSED_SESSIONS = 1, 2, 3, 4, 5
REFUSED_SHUTDOWN, REFUSED_PROTOCOL, REFUSED_CHANNEL, REFUSED_SCOPE, REFUSED_PEER = 6, 7, 8, 9, 10
REFUSED_NAME_LIMIT, REFUSED_PEER_LIMIT, REFUSED_KEY_LIMIT, REFUSED_TABLE = 11, 12, 13, 14
LAYOUT = 2  # of the table

FRAME_MAGIC, REPLY_MAGIC = 0x3146574B, 0x3152574B  # "KWF1", "KWR1"
FRAME_READ, FRAME_REPORT = 1, 2
REPLY = struct.Struct("<IHHQQ")

SHM, TCP = "shm", "tcp"


class Refused(Exception):
    """The proxy said no: the number of its reason, and the version that it speaks."""

    def __init__(self, message):
        _, _, _, self.reason, self.version, self.limit = struct.unpack("<IHHHHI", message)
        super().__init__(f"refused, reason {self.reason} (the proxy speaks version {self.version})")


class Ended(Exception):
    """The other side closed the connection."""


def carrier_of(address):
    return address.split("://")[0]


def endpoint(address):
    """What connect and bind take."""
    rest = address.split("://", 1)[1]
    if carrier_of(address) == SHM:
        return rest
    host, port = rest.rsplit(":", 1)
    return host.strip("[]"), int(port)


def dial(address, timeout=10.0, source=None):
    """A socket that is connected to a listener. source: the IP address to come from."""
    if carrier_of(address) == SHM:
        dialled = socket.socket(socket.AF_UNIX)
        dialled.settimeout(timeout * SLOW)
        dialled.connect(endpoint(address))
        return dialled
    return socket.create_connection(endpoint(address), timeout * SLOW, (source, 0) if source else None)


def listen(address, mode=0o777):
    """A socket that listens as a proxy would. A unix socket is open to all users, so that a test may attack it."""
    if carrier_of(address) == TCP:
        return socket.create_server(endpoint(address))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(endpoint(address))
    os.chmod(endpoint(address), mode)
    listener.listen(64)
    return listener


def receive_exactly(connection, length, descriptors=None):
    """So many bytes; file descriptors that come with them go into the list."""
    got = b""
    while len(got) < length:
        if descriptors is None:
            piece = connection.recv(length - len(got))
        else:
            piece, ancillary, _, _ = connection.recvmsg(length - len(got), socket.CMSG_SPACE(4))
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors.extend(array.array("i", data[:len(data) // 4 * 4]))
        if not piece:
            raise Ended(f"the connection was closed after {len(got)} of {length} bytes")
        got += piece
    return got


def receive_message(connection, descriptors=None):
    """One message of the handshake, its header included. Raises Ended."""
    head = receive_exactly(connection, HEADER.size, descriptors)
    magic, _, length = HEADER.unpack(head)
    assert magic == MAGIC and HEADER.size < length <= MESSAGE_MAX, f"no message of a handshake: {head.hex()}"
    return head + receive_exactly(connection, length - HEADER.size, descriptors)


def type_of(message):
    return HEADER.unpack_from(message)[1]


def expect(connection, wanted, descriptors=None):
    """The message that is due. Raises Refused and Ended."""
    message = receive_message(connection, descriptors)
    if type_of(message) == REFUSE:
        raise Refused(message)
    assert type_of(message) == wanted, f"message {type_of(message)} came, {wanted} was due"
    return message


def mac(secret, *parts):
    return hmac.new(secret, b"".join(parts), hashlib.sha256).digest() if secret else bytes(32)


@dataclass
class Facts:
    """What a WELCOME tells."""
    epoch: int
    depth: int
    offset: int
    length: int
    rkey: int = 0
    scoped: int = 0
    memory: tuple = (0, 0)  # device and inode of the memory file
    session: int = 0


@dataclass
class Claims:
    """What an agent says of itself. A test changes what it wants to lie about."""
    name: str = "attacker"
    secret: bytes = b""
    depth: int = 16
    nonce: bytes = field(default_factory=lambda: os.urandom(32))
    proves: int = -1  # 1: "I will prove a secret"; -1: as it is
    key_id: str = ""
    role: int = 1     # 1 agent, 2 gateway, 3 inspector


class Version2:
    """Version 0.1. Its HELLO names no connection."""
    number = 2
    hello_bytes, welcome_bytes = 112, 88
    label_agent, label_proxy = b"keywake agent 1\0", b"keywake proxy 1\0"

    @classmethod
    def hello(cls, claims, _connection, _address):
        proves = bool(claims.secret) if claims.proves < 0 else claims.proves
        return struct.pack("<IHHHBBI32s64s", MAGIC, HELLO, cls.hello_bytes, cls.number, proves,
                           len(claims.name), claims.depth, claims.nonce, claims.name.encode())

    @classmethod
    def proof(cls, secret, hello, challenge):
        return HEADER.pack(MAGIC, PROOF, 40) + mac(secret, cls.label_agent, hello, challenge)

    @classmethod
    def challenge(cls, secret, nonce):
        return struct.pack("<IHHHB5x32s", MAGIC, CHALLENGE, 48, cls.number, bool(secret), nonce)

    @classmethod
    def welcome(cls, secret, hello, challenge, facts):
        told = struct.pack("<QIIQQQII", facts.epoch, facts.depth, 0, facts.offset, facts.length, 0, facts.rkey, 0)
        head = HEADER.pack(MAGIC, WELCOME, cls.welcome_bytes)
        return head + mac(secret, cls.label_proxy, hello, challenge, told) + told

    @classmethod
    def facts(cls, welcome):
        epoch, depth, _, offset, length, _, rkey, _ = struct.unpack_from("<QIIQQQII", welcome, 40)
        return Facts(epoch, depth, offset, length, rkey)


class Version3:
    """HELLO names what the agent dialled, and WELCOME the memory file: no relay can stand between."""
    number = 3
    hello_bytes, welcome_bytes = 192, 112
    label_agent, label_proxy = b"keywake agent 3\0", b"keywake proxy 3\0"
    carriers = {SHM: 1, TCP: 2}

    @classmethod
    def channel(cls, connection, address):
        if carrier_of(address) == SHM:
            file = os.stat(endpoint(address))
            return struct.pack("<QQ24x", file.st_dev, file.st_ino)
        host, port = connection.getpeername()[:2]
        mapped = host if ":" in host else "::ffff:" + host
        return struct.pack("<16sH22x", socket.inet_pton(socket.AF_INET6, mapped), port)

    @classmethod
    def hello(cls, claims, connection, address):
        proves = bool(claims.secret) if claims.proves < 0 else claims.proves
        return struct.pack("<IHHHHBBBBIB3x32s64s32s40s", MAGIC, HELLO, cls.hello_bytes, cls.number, LAYOUT, proves,
                           claims.role, len(claims.name), len(claims.key_id), claims.depth,
                           cls.carriers[carrier_of(address)], claims.nonce, claims.name.encode(),
                           claims.key_id.encode(), cls.channel(connection, address))

    @classmethod
    def proof(cls, secret, hello, challenge):
        return HEADER.pack(MAGIC, PROOF, 40) + mac(secret, cls.label_agent, hello, challenge)

    @classmethod
    def challenge(cls, secret, nonce):
        return struct.pack("<IHHHHB3x32s", MAGIC, CHALLENGE, 48, cls.number, LAYOUT, bool(secret), nonce)

    @classmethod
    def welcome(cls, secret, hello, challenge, facts):
        told = struct.pack("<QIIQQQIIQQQ", facts.epoch, facts.depth, facts.scoped, facts.offset,
                           facts.length, 0, facts.rkey, 0, *facts.memory, facts.session)
        head = HEADER.pack(MAGIC, WELCOME, cls.welcome_bytes)
        return head + mac(secret, cls.label_proxy, hello, challenge, told) + told

    @classmethod
    def facts(cls, welcome):
        epoch, depth, scoped, offset, length, _, rkey, _, device, inode, session = struct.unpack_from(
            "<QIIQQQIIQQQ", welcome, 40)
        return Facts(epoch, depth, offset, length, rkey, scoped, (device, inode), session)


VERSIONS = {version.number: version for version in (Version2, Version3)}
NEWEST = max(VERSIONS)


def refuse(reason, version=NEWEST, limit=0):
    """A REFUSE, as a proxy says it."""
    return struct.pack("<IHHHHI", MAGIC, REFUSE, 16, reason, version, limit)


def spoken_by(address, tries=30):
    """The wire version of the proxy that listens there: REFUSE names it, in every version."""
    for _ in range(tries):
        try:
            return asked_version(address)
        except (Ended, OSError) as failed: # it gave way to others, for example
            last = failed
    raise last


def asked_version(address):
    with dial(address, 1.0) as connection:
        hello = bytearray(VERSIONS[2].hello(Claims("which-version"), connection, address))
        struct.pack_into("<H", hello, 8, 0xFFFF)
        connection.sendall(hello)
        try:
            expect(connection, CHALLENGE)
        except Refused as refused:
            assert refused.version in VERSIONS, f"lib/wire.py does not know version {refused.version}"
            return VERSIONS[refused.version]
    raise AssertionError("a proxy took a HELLO of version 65535")


class Joined:
    """A session: what an agent may do after WELCOME. Over tcp it asks; over shm it looks into the memory."""

    def __init__(self, connection, carrier, facts, descriptors):
        self.connection, self.carrier, self.facts = connection, carrier, facts
        self.memory = descriptors[0] if descriptors else -1
        self.next_id = 1

    def read(self, offset, length):
        """Bytes of the memory file. Raises Ended with the status of a farewell."""
        if self.carrier == SHM:
            return os.pread(self.memory, length, offset)
        self.ask(offset, length)
        return self.answer(length)

    def ask(self, offset, length):
        self.connection.sendall(struct.pack("<IHHQQQ", FRAME_MAGIC, FRAME_READ, 32, self.next_id, offset, length))
        self.next_id += 1

    def answer(self, length):
        magic, status, _, _, told = REPLY.unpack(receive_exactly(self.connection, REPLY.size))
        assert magic == REPLY_MAGIC, "no reply to a READ"
        if status != 0:
            raise Ended(f"farewell, status {status}")
        assert told == length
        return receive_exactly(self.connection, length)

    def segments(self):
        """(offset, bytes) of each segment of the log, as superblock and directory say."""
        superblock = self.read(0, 128)
        head, head_bytes = struct.unpack_from("<QQ", superblock, 24)
        at, length = struct.unpack_from("<QI", superblock, 64)
        directory = self.read(at, length)
        for number in range(struct.unpack_from("<I", directory, 28)[0]):
            segment, offset, _, committed = struct.unpack_from("<QQQQ", directory, 40 + 48 * number)
            yield offset, head_bytes if segment == head else committed

    def everything(self):
        """All records: what an attacker wants. Only of a proxy that is live and rests."""
        return b"".join(self.read(offset, length) for offset, length in self.segments() if length)

    def report(self, state=b"warm", passed=0, ticket=0):
        """passed: the version up to which it needs no tombstone; ticket: the barrier that it waits for."""
        self.connection.sendall(struct.pack("<IHHQQQQQ14sH", FRAME_MAGIC, FRAME_REPORT, 64, passed, 0, 0, 0, 0, state,
                                            ticket))

    def ticket(self):
        """The number in the superblock: odd while a barrier is under way."""
        return struct.unpack_from("<H", self.read(0, 128), 78)[0]

    def farewell(self):
        """The status with which the proxy ends the session; None if it just closes."""
        try:
            return REPLY.unpack(receive_exactly(self.connection, REPLY.size))[1]
        except (Ended, ConnectionResetError):
            return None

    def close(self):
        self.connection.close()
        if self.memory >= 0:
            os.close(self.memory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def prove(connection, address, claims, version):
    """The agent's half over a connection that is there. A Joined, or Refused, or Ended."""
    hello = version.hello(claims, connection, address)
    connection.sendall(hello)
    challenge = expect(connection, CHALLENGE)
    connection.sendall(version.proof(claims.secret, hello, challenge))
    descriptors = []
    welcome = expect(connection, WELCOME, descriptors)
    return Joined(connection, carrier_of(address), version.facts(welcome), descriptors)


def join(address, name="attacker", secret=b"", version=None, source=None, timeout=10.0):
    """Dial and prove, in the version that the proxy speaks. Raises Refused, Ended, OSError."""
    version = version or spoken_by(address)
    connection = dial(address, timeout, source)
    try:
        return prove(connection, address, Claims(name, secret), version)
    except BaseException:
        connection.close()
        raise


def may_join(address, **options):
    """Does a proxy let it in? A closed door of any kind is a no."""
    try:
        join(address, **options).close()
        return True
    except (Refused, Ended, OSError):
        return False
