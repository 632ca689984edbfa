"""Memory that processes of one machine share, in which the first of a group writes its calls.

It is written and read without a system call. A process that waits long waits elsewhere, and notes
that here.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import sys
from typing import Final, final

SLOTS: Final = 1024  # calls that it holds
MEMBERS: Final = 16
SKIPPED: Final = "skipped"

# Words of 64 bits: for each other process whether it reads here, and the number of the call that it
# reads next; the number of the last call; a token; the slots.
_READS = 0
_NEXT = _READS + MEMBERS
_LAST = _NEXT + MEMBERS
_TOKEN = _LAST + 1
_FIRST_SLOT = _TOKEN + 1
# Four words: the number of a call, the program's fingerprint, the place, and a word that proves the
# others complete. The writer writes word by word, so a reader may read an incomplete slot.
_SLOT = struct.Struct("@QQQQ")
_WHOLE = 0x9E3779B97F4A7C15  # in the proof, since memory begins as zeros
_SIZE = 8 * _FIRST_SLOT + _SLOT.size * SLOTS
_TEXT = struct.Struct("=QI")  # the place, the length of its text


@final
class Ring:
    """The last calls of the first process of a group. The others are its members, from 0 on.

    memory, texts: files.
    """

    def __init__(self, memory: int, texts: int, members: int) -> None:
        self._memory = mmap.mmap(memory, _SIZE)
        self._files, self._texts, self._members = (memory, texts), texts, members
        self._words = memoryview(self._memory).cast("Q")
        self._who_reads = memoryview(self._memory)[8 * _READS : 8 * (_READS + members)]
        self._all_read = (1).to_bytes(8, sys.byteorder) * members
        self.safe = 0  # calls of lower numbers overwrite nothing that is needed

    @classmethod
    def create(cls, members: int) -> Ring | None:
        """One that others can find, by `where`; None where the system has none, or for too many."""
        if members > MEMBERS or not hasattr(os, "memfd_create"):
            return None
        memory, texts = (
            os.memfd_create(f"teucer-{name}", os.MFD_CLOEXEC) for name in ("calls", "places")
        )
        os.ftruncate(memory, _SIZE)
        made = cls(memory, texts, members)
        made._words[_TOKEN] = int.from_bytes(secrets.token_bytes(8))
        return made

    @property
    def where(self) -> str:
        """How processes of this machine and user find it."""
        return " ".join(map(str, (os.getpid(), *self._files, self._words[_TOKEN])))

    @classmethod
    def find(cls, where: str, members: int) -> Ring | None:
        """That of another process; None on another machine."""
        process, memory, texts, token = where.split(" ")
        files: list[int] = []
        try:
            for number in (memory, texts):
                files.append(os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC))
            found = cls(files[0], files[1], members)
        except (OSError, ValueError):  # another file, or none
            for file in files:
                os.close(file)
            return None
        if found._words[_TOKEN] == int(token):
            return found
        found.close()
        return None

    def close(self) -> None:
        """Part from the memory."""
        self._who_reads.release()
        self._words.release()
        self._memory.close()
        for file in self._files:
            os.close(file)

    def _slot(self, number: int) -> tuple[int, int] | None:
        """The fingerprint and the place of a call, if its slot holds it."""
        found, fingerprint, place, proof = _SLOT.unpack_from(
            self._memory, 8 * _FIRST_SLOT + number % SLOTS * _SLOT.size
        )
        # The number may be seen before the rest.
        if found == number and proof == number ^ fingerprint ^ place ^ _WHOLE:
            return fingerprint, place
        return None

    # The code that each call runs has no helper functions: one more call of Python would double its
    # time.

    # The first process

    def lost_by(self, number: int) -> tuple[int, int] | None:
        """The fingerprint and the place of the call that is lost when this one is written, and that
        some member has not read; for numbers that are not safe."""
        words = self._words
        reading = [words[_NEXT + i] for i in range(self._members) if words[_READS + i]]
        self.safe = min(reading, default=number) + SLOTS
        return self._slot(number - SLOTS) if number >= self.safe else None

    def write(self, number: int, fingerprint: int, place: int) -> None:
        """Write down a call."""
        _SLOT.pack_into(
            self._memory,
            8 * _FIRST_SLOT + number % SLOTS * _SLOT.size,
            number,
            fingerprint,
            place,
            number ^ fingerprint ^ place ^ _WHOLE,
        )
        self._words[_LAST] = number

    def all_read(self) -> bool:
        """Whether all members read here."""
        return self._who_reads == self._all_read

    def reads(self, member: int) -> bool:
        """Whether a member reads here."""
        return bool(self._words[_READS + member])

    def has_read(self, member: int, number: int) -> bool:
        """Whether a member does not need to read a call here."""
        return not self._words[_READS + member] or self._words[_NEXT + member] > number

    def add_text(self, place: int, text: bytes, *, forget: bool) -> None:
        """Write down the name of a place; forget: in place of all other names."""
        if forget:
            os.ftruncate(self._texts, 0)
            os.lseek(self._texts, 0, os.SEEK_SET)
        os.write(self._texts, _TEXT.pack(place, len(text)) + text)

    # The others

    def holds(self, number: int, fingerprint: int, thread: int, member: int) -> bool:
        """Whether this call is here, of this program and in this thread."""
        found, program, place, proof = _SLOT.unpack_from(
            self._memory, 8 * _FIRST_SLOT + number % SLOTS * _SLOT.size
        )
        if (
            found == number
            and program == fingerprint
            and place >> 32 == thread
            and proof == number ^ fingerprint ^ place ^ _WHOLE
        ):
            self._words[_NEXT + member] = number + 1
            return True
        return False

    def read(self, number: int, member: int) -> tuple[int, int] | str | None:
        """The fingerprint and the place of a call; SKIPPED if the first process has gone on without
        it; None if it is not here, or not yet."""
        last = self._words[_LAST]
        found = self._slot(number)
        if found is not None:
            self._words[_NEXT + member] = number + 1
            return found
        return SKIPPED if number < last < number + SLOTS else None

    def stay(self, number: int, member: int) -> None:
        """A member reads here from this call on."""
        self._words[_NEXT + member] = number
        self._words[_READS + member] = 1

    def leave(self, member: int) -> None:
        """A member does not read here any more."""
        self._words[_READS + member] = 0

    def text(self, place: int) -> str | None:
        """The name of a place."""
        content, at = os.pread(self._texts, os.fstat(self._texts).st_size, 0), 0
        while at + _TEXT.size <= len(content):
            found, length = _TEXT.unpack_from(content, at)
            at += _TEXT.size
            if found == place:
                return content[at : at + length].decode(errors="replace")
            at += length
        return None
