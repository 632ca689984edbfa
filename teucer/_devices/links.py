"""Messages of the first process of a group to the others about its calls.

On one machine it writes them into shared memory, elsewhere it sends them over TCP, along a tree. It
never waits for readers. The others look into the memory for some time; then they wait for what is
sent to them, in the thread that makes the call.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from teucer._devices.rings import MEMBERS, SLOTS, Ring

Group: TypeAlias = tuple[int, ...]

_FAN_OUT = MEMBERS  # processes that one sends to
_HEADER = struct.Struct("<8sQQIII")  # the group's hash, then as `Said`; the length of what follows
_HELLO = struct.Struct("<16sI")  # the listener's token, and the caller
_RING = (1 << 64) - 1  # in the place of a call's number: what follows is where a ring is
_TURN = struct.pack("ll", 1, 0)  # seconds that a call of the system waits
_PATIENCE = 5000  # milliseconds until a process has said where it listens
_SITES = 4096  # places in the program that a process remembers
_LOOKS = 200  # into shared memory, before a process waits
_yield = getattr(os, "sched_yield", lambda: None)


class Said(NamedTuple):
    """A call of the first process of a group: the program's fingerprint, and the numbers of the
    call, of its place and of its thread."""

    fingerprint: int
    number: int
    site: int
    thread: int


class _Heard:
    """Messages that this process has received about a group's calls.

    calls: by number. sites: the names of places. ring: the ring that is read, if any.
    """

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Said, bytes]] = {}
        self.sites: dict[int, str] = {}
        self.ring = ""


class _Conversation:
    """Messages within a group. place: this process's place in it. others: the processes that it
    sends to, by their members of the ring.
    looks: how often this process looks into the ring before it waits. sites: numbers of places.
    """

    def __init__(self, group: Group, place: int, heard: _Heard) -> None:
        self.key, self.place, self.heard = _hash(group), place, heard
        self.members = len(group) - 1
        first = place * _FAN_OUT + 1
        self.others = list(enumerate(group[first : first + _FAN_OUT], first - 1))
        self.parent = group[(place - 1) // _FAN_OUT]
        self.ring: Ring | None = None
        self.looks = _LOOKS
        self.sites: dict[Any, int] = {}
        self.said_sites = 0

    def packed(self, said: Said, text: bytes = b"") -> bytes:
        return _HEADER.pack(self.key, *said, len(text)) + text


class Unreachable(RuntimeError):
    """Another process cannot be connected with."""

    __module__ = "teucer.errors"


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
        self._conversations: dict[Group, _Conversation] = {}
        self._heard: dict[bytes, _Heard] = collections.defaultdict(_Heard)

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
        while self._conversations:
            _, talk = self._conversations.popitem()
            if talk.ring is not None:
                talk.ring.close()

    def say(
        self,
        group: Group,
        fingerprint: int,
        number: int,
        thread: int,
        site: Any,
        describe: Callable[[], str],
    ) -> None:
        """Tell the other processes of a group of a call; this one is the group's first.

        describe: the call's name and place, which are said once for each site.
        """
        talk, text = self._conversations.get(group) or self._conversation(group), b""
        found = talk.sites.get(site)
        if found is None:
            if len(talk.sites) >= _SITES:
                talk.sites.clear()
            found = talk.sites[site] = talk.said_sites
            talk.said_sites += 1
            text = describe().encode()
        ring = talk.ring
        if ring is None:
            with self._going:
                self._send(talk, talk.packed(Said(fingerprint, number, found, thread), text))
            return
        if text:
            ring.add_text(found, text, forget=not found % _SITES)
        lost = None if number < ring.safe else ring.lost_by(number)
        ring.write(number, fingerprint, thread << 32 | found)
        with self._going:  # a barrier, too: the others see what is written, or it is sent to them
            if lost is not None:
                old = _written(number - SLOTS, *lost)
                self._send(talk, talk.packed(old), lambda i: ring.has_read(i, old.number))
            if not ring.all_read():
                said = Said(fingerprint, number, found, thread)
                self._send(talk, talk.packed(said, text), ring.reads)

    def lies_there(self, group: Group, fingerprint: int, number: int, thread: int) -> bool:
        """Whether the first process of a group has written down this call; a quick look."""
        talk = self._conversations.get(group)
        return (
            talk is not None
            and talk.ring is not None
            and talk.ring.holds(number, fingerprint, thread, talk.place - 1)
        )

    def hear(self, group: Group, number: int, turn: Callable[[], None]) -> Said | None:
        """The message of the group's first process about the call of this number, which is passed
        on; None if it sends none, and goes on.

        turn: called now and then while this waits; an exception of it ends the wait.
        """
        talk = self._conversation(group)
        ring, member = talk.ring, talk.place - 1
        if ring is None:
            said = self._sent(talk, number, turn)
            if talk.heard.ring:
                talk.ring, talk.heard.ring = Ring.find(talk.heard.ring, talk.members), ""
                if talk.ring is not None:
                    talk.ring.stay(number + 1, member)
            return said
        found, looks = ring.read(number, member), talk.looks
        while found is None and looks:
            looks -= 1
            _yield()
            found = ring.read(number, member)
        if found is None:
            talk.looks = max(talk.looks // 2, 4)
            ring.leave(member)
            with self._going:  # a barrier
                pass
            said = self._sent(talk, number, turn)
            ring.stay(number + 1, member)
            return said
        if looks < talk.looks < _LOOKS:
            talk.looks *= 2
        return None if isinstance(found, str) else _written(number, *found)

    def _sent(self, talk: _Conversation, number: int, turn: Callable[[], None]) -> Said | None:
        """The message of a group's first process about a call: sent, or written meanwhile to the
        coordination service."""
        heard, ring = talk.heard.calls, talk.ring
        while True:
            found = heard.pop(number, None)
            if found is not None:
                said, message = found
                with self._going:
                    self._send(talk, message)
                return said
            written = None if ring is None else ring.read(number, talk.place - 1)
            if written is not None:
                return None if isinstance(written, str) else _written(number, *written)
            for old in [n for n in heard if n < number]:
                del heard[old]
            # A message that the ring has lost comes late.
            if heard and (ring is None or max(heard) >= number + SLOTS):
                return None
            link = self._from.get(talk.parent)
            if link is None:
                self._accept(turn)
                continue
            with link[2]:
                if number not in heard and not self._read(talk.parent, link):
                    turn()

    def describe(self, group: Group, said: Said) -> str:
        """The name and the place of a call that was heard."""
        talk = self._conversation(group)
        text = talk.heard.sites.get(said.site)
        if text is None and talk.ring is not None:
            text = talk.ring.text(said.site)
        return text or "a program\nan unknown line"

    def _conversation(self, group: Group) -> _Conversation:
        talk = self._conversations.get(group)
        if talk is None:
            heard, place = self._heard[_hash(group)], group.index(self._number)
            talk = self._conversations[group] = _Conversation(group, place, heard)
            talk.ring = Ring.create(talk.members) if place == 0 else None
            if talk.ring is not None:
                with self._going:
                    self._send(talk, talk.packed(Said(0, _RING, 0, 0), talk.ring.where.encode()))
        return talk

    def _send(
        self, talk: _Conversation, message: bytes, leave_out: Callable[[int], bool] | None = None
    ) -> None:
        for member, other in talk.others:
            if leave_out is not None and leave_out(member):
                continue
            link = self._to[other] if other in self._to else self._connect(other)
            if link is not None:
                try:
                    link.sendall(message)
                except OSError:  # the watch of processes finds out why
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
        """Read a message from another process that has come, or comes soon; whether there was
        one."""
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
            heard = self._heard[key]
            if said.number == _RING:
                heard.ring = text
                continue
            if text:
                heard.sites[said.site] = text
                if len(heard.sites) > 2 * _SITES:
                    del heard.sites[next(iter(heard.sites))]
            heard.calls[said.number] = said, message
        return True


def _written(number: int, fingerprint: int, where: int) -> Said:
    """A call as it stands in a ring."""
    return Said(fingerprint, number, where & 0xFFFFFFFF, where >> 32)


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
    for target in ((host.strip("[]"), int(port)), ("192.0.2.1", 9)):  # no machine's address
        with contextlib.suppress(OSError):
            for family, kind, _, _, where in socket.getaddrinfo(*target, type=socket.SOCK_DGRAM):
                with socket.socket(family, kind) as s:
                    s.connect(where)  # sends nothing
                    found.append(s.getsockname()[0])
    far = [a for a in dict.fromkeys(found) if not _is_loopback(f"{a}:0")]
    return [*far, "127.0.0.1"]
