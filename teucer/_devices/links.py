"""What the first process of a group says of its calls to the others: over TCP, along a tree.

A process that waits for a message reads it in its own thread, and one that sends never waits for
who reads. So an exchange costs two calls of the system, and its time is that of the network.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

Group: TypeAlias = tuple[int, ...]

_FAN_OUT = 16  # processes that one sends to
_HEADER = struct.Struct("<8s8sQII")  # the group's hash, then as `Said`; the length of what follows
_HELLO = struct.Struct("<16sI")  # the listener's token, who calls
_TURN = struct.pack("ll", 1, 0)  # seconds that a call of the system waits
_PATIENCE = 5000  # milliseconds until a process has said where it listens
_SITES = 4096  # places in the program that a process remembers


class Said(NamedTuple):
    """A call of the first process of a group: the program's fingerprint, the number of the call,
    and that of the place where it is made."""

    fingerprint: bytes
    number: int
    site: int


class Unreachable(RuntimeError):
    """Another process cannot be connected with."""


class Links:
    """The links of a process with others.

    find: the text under a key of the coordination service, after at most so many milliseconds;
    tell: writes one.
    """

    def __init__(
        self,
        number: int,
        address: str,
        find: Callable[[str, int], str],
        tell: Callable[[str, str], None],
    ) -> None:
        self._number, self._address, self._find, self._tell = number, address, find, tell
        self._listener: socket.socket | None = None
        self._token = secrets.token_bytes(16)
        self._to: dict[int, socket.socket | None] = {}
        self._from: dict[int, tuple[socket.socket, bytearray, threading.Lock]] = {}
        self._coming, self._going = threading.Lock(), threading.Lock()
        self._heard: dict[bytes, collections.deque[tuple[Said, bytes]]] = {}
        self._sites: dict[Group, dict[Any, int]] = collections.defaultdict(dict)
        self._described: dict[bytes, dict[int, str]] = collections.defaultdict(dict)
        self._said_sites = 0

    def open(self) -> None:
        """Listen, and say where."""
        if self._listener is None:
            own = _is_loopback(self._address)
            self._listener = socket.create_server(("127.0.0.1" if own else "", 0), backlog=1024)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TURN)
            hosts = ["127.0.0.1"] if own else _own_addresses(self._address)
            where = [*hosts, str(self._listener.getsockname()[1]), self._token.hex()]
            self._tell(f"links/{self._number}", " ".join(where))

    def close(self) -> None:
        """End all of them."""
        sockets = [self._listener, *self._to.values(), *(link[0] for link in self._from.values())]
        for s in sockets:
            if s is not None:
                s.close()

    def say(
        self, group: Group, fingerprint: bytes, number: int, site: Any, describe: Callable[[], str]
    ) -> None:
        """Tell the other processes of a group of a call; this one is the group's first.

        describe: the call's name and place, which are said once for each site.
        """
        with self._going:
            sites, text = self._sites[group], b""
            found = sites.get(site)
            if found is None:
                if len(sites) >= _SITES:
                    sites.clear()
                found = sites[site] = self._said_sites
                self._said_sites += 1
                text = describe().encode()
            self._pass_on(
                group, _HEADER.pack(_hash(group), fingerprint, number, found, len(text)) + text
            )

    def hear(self, group: Group, number: int, turn: Callable[[], None]) -> Said | None:
        """What the first process of the group says of a call of this number, and pass it on; None
        if it has said nothing of it, and goes on.

        turn: called now and then while this waits; what it raises ends the wait.
        """
        key = _hash(group)
        heard = self._heard.setdefault(key, collections.deque())
        parent = group[(group.index(self._number) - 1) // _FAN_OUT]
        while True:
            while heard:
                said, message = heard[0]
                if said.number > number:
                    return None
                heard.popleft()
                with self._going:
                    self._pass_on(group, message)
                if said.number == number:
                    return said
            link = self._from.get(parent)
            if link is None:
                self._accept(turn)
                continue
            with link[2]:
                if not heard and not self._read(parent, link):
                    turn()

    def describe(self, group: Group, said: Said) -> str:
        """The name and the place of a call that was heard."""
        return self._described[_hash(group)].get(said.site, "a program\nan unknown line")

    def _pass_on(self, group: Group, message: bytes) -> None:
        first = group.index(self._number) * _FAN_OUT + 1
        for other in group[first : first + _FAN_OUT]:
            link = self._to[other] if other in self._to else self._connect(other)
            if link is not None:
                try:
                    link.sendall(message)
                except OSError:  # the watch finds out why
                    self._to[other] = None

    def _connect(self, other: int) -> socket.socket | None:
        *hosts, port, token = self._find(f"links/{other}", _PATIENCE).split(" ")
        link = None
        for host in hosts:
            with contextlib.suppress(OSError):
                link = socket.create_connection((host, int(port)), 10)
                link.settimeout(None)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link.sendall(_HELLO.pack(bytes.fromhex(token), self._number))
                break
        else:
            raise Unreachable(
                f"process {self._number} cannot reach process {other} at {', '.join(hosts)}, port "
                f"{port}, to tell it which programs it calls.\n  Let processes connect with each "
                "other, or set TEUCER_CHECK_PROGRAMS=0."
            )
        self._to[other] = link
        return link

    def _accept(self, turn: Callable[[], None]) -> None:
        assert self._listener is not None
        with self._coming:
            try:
                link, _ = self._listener.accept()
            except BlockingIOError:
                link = None
            if link is None:
                turn()
                return
            link.settimeout(10)
            hello = b""
            with contextlib.suppress(OSError):
                hello = link.recv(_HELLO.size, socket.MSG_WAITALL)
            if len(hello) != _HELLO.size or hello[:16] != self._token:
                link.close()  # a stranger
                return
            link.settimeout(None)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TURN)
            self._from[_HELLO.unpack(hello)[1]] = link, bytearray(), threading.Lock()

    def _read(self, parent: int, link: tuple[socket.socket, bytearray, threading.Lock]) -> bool:
        """Read what has come from another process, or comes soon; whether something did."""
        stream, buffer, _ = link
        try:
            data = stream.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:  # it has ended; perhaps another comes in its place
            del self._from[parent]
            return False
        buffer += data
        for key, said, message, text in _messages(buffer):
            if text:
                described = self._described[key]
                described[said.site] = text
                if len(described) > 2 * _SITES:
                    del described[next(iter(described))]
            self._heard.setdefault(key, collections.deque()).append((said, message))
        return True


def _messages(buffer: bytearray) -> Iterator[tuple[bytes, Said, bytes, str]]:
    """Take the whole messages out of a buffer."""
    at = 0
    while len(buffer) - at >= _HEADER.size:
        key, *said, length = _HEADER.unpack_from(buffer, at)
        end = at + _HEADER.size + length
        if end > len(buffer):
            break
        message = bytes(buffer[at:end])
        yield key, Said(*said), message, message[_HEADER.size :].decode()
        at = end
    del buffer[:at]


@functools.cache
def _hash(group: Group) -> bytes:
    return hashlib.blake2b(repr(group).encode(), digest_size=8).digest()


def _is_loopback(address: str) -> bool:
    """Whether all processes are on one machine, since the coordinator's address says so."""
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1", "") or host.startswith("127.")


def _own_addresses(coordinator: str) -> list[str]:
    """Where others may reach this machine: by the way to the coordinator, by that to the world."""
    host, _, port = coordinator.rpartition(":")
    found = []
    for target in ((host.strip("[]"), int(port)), ("192.0.2.1", 9)):  # an address of nobody
        with contextlib.suppress(OSError):
            for family, kind, _, _, where in socket.getaddrinfo(*target, type=socket.SOCK_DGRAM):
                with socket.socket(family, kind) as s:
                    s.connect(where)  # sends nothing
                    found.append(s.getsockname()[0])
    far = [a for a in dict.fromkeys(found) if not _is_loopback(f"{a}:0")]
    return [*far, "127.0.0.1"]
