"""Segments of state that the workers of one machine share in memory.

Spark gives a task to whichever Python worker is free, so a shard often finds itself in a worker that does not have its
engine. The state store has all that is needed, but each segment comes out of RocksDB, through the JVM and a socket: of
the 50 ms that it takes to rebuild an engine, two thirds. The worker that wrote a segment therefore also keeps it in a
nameless file in memory (memfd), and says in the head where. Another worker opens that file through ``/proc``.

*This is never needed for an answer.* What is not there is read from the store: on other systems than Linux, on another
machine, when the worker has ended (its files end with it) or has forgotten. Nothing can be mistaken for it either: the
file's name holds a token that is drawn for it. The link in ``/proc`` is compared with it before anything is opened, and
again afterwards, by the file that was opened: the owner may have closed it between the two.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_SHARED_BYTES: Final = 16 << 20  # of a shard's state; a second copy of more costs more than it saves
MAX_FILES: Final = 64  # that a process shares at a time, of the thousand or so that it may have open

_shown: set[int] = set()  # the files of this process


@dataclass(slots=True)
class SharedSegment:
    """Where a segment is shown: in a process, by a file that it has open. The process that shows it owns the file,
    which is closed with the last reference to this."""

    process: int
    file: int
    token: str
    owned: bool = field(default=False, compare=False)

    def read(self) -> bytes | None:
        """The segment, or None if it is not there any more.

        >>> shown = show(b"rows")
        >>> SharedSegment(shown.process, shown.file, shown.token).read()
        b'rows'
        >>> SharedSegment(shown.process, shown.file, "another").read()
        """
        link, name = Path(f"/proc/{self.process}/fd/{self.file}"), f"/memfd:{self.token} (deleted)"
        with contextlib.suppress(OSError):
            if str(link.readlink()) == name:
                with link.open("rb") as file:
                    if str(Path(f"/proc/self/fd/{file.fileno()}").readlink()) == name:
                        return file.read()
        return None

    def to_json(self) -> list[int | str]:
        return [self.process, self.file, self.token]

    def __del__(self) -> None:
        if self.owned and os.getpid() == self.process:
            _shown.discard(self.file)
            with contextlib.suppress(OSError):
                os.close(self.file)


def show(data: bytes) -> SharedSegment | None:
    """Keep a segment where other workers find it, as long as the returned value lives; None where that is not known,
    or when enough is shown."""
    if not hasattr(os, "memfd_create") or len(_shown) >= MAX_FILES:
        return None
    token = f"eddyline-{secrets.token_hex(16)}"
    try:
        file = os.memfd_create(token)
    except OSError:  # no more files, or not allowed here
        return None
    segment = SharedSegment(os.getpid(), file, token, owned=True)
    _shown.add(file)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:  # no more memory for it
        return None
    return segment
