"""A real terminal (pty) for tests: what a program writes to it, and what somebody in front of it would see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
ASKS_FOR_CURSOR = b"\x1b[6n"
Act = Callable[["Terminal"], None]


def screen(written: str, columns: int = 80) -> list[str]:
    """The lines that are left on a terminal, long ones folded as a terminal folds them.

    >>> screen("12 events\\r34 events, more\\x1b[K\\r\\x1b[Kdone\\r\\n")
    ['done']
    >>> screen("abcdefgh", columns=5)
    ['abcde', 'fgh']
    """
    lines: list[list[str]] = [[]]
    at, i = 0, 0
    while i < len(written):
        escape = _ESCAPE.match(written, i)
        if escape is not None:
            i = escape.end()
            if escape[2] == "K":
                del lines[-1][at:]
            continue
        c, i = written[i], i + 1
        if c == "\r":
            at = 0
        elif c == "\n":
            lines.append([])
            at = 0
        else:
            if at == columns:
                lines.append([])
                at = 0
            lines[-1][at : at + 1] = [c]
            at += 1
    found = ["".join(line).rstrip() for line in lines]
    while found and not found[-1]:
        found.pop()
    return found


@dataclass(slots=True)
class Terminal:
    """A program that runs in a terminal."""

    process: subprocess.Popen[bytes]
    descriptor: int
    columns: int
    written: str = ""
    times: list[tuple[float, str]] = field(default_factory=list)  # seconds since the start, and what came

    @property
    def screen(self) -> list[str]:
        return screen(self.written, self.columns)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def press_ctrl_c(self) -> None:
        """As a terminal does it: the signal goes to everybody in the foreground."""
        if self.process.poll() is None:
            os.write(self.descriptor, b"\x03")


def _start(
    command: Sequence[str], folder: Path, columns: int, environment: Mapping[str, str] | None = None, rows: int = 24
) -> Terminal:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    given = {**os.environ, "TERM": "xterm", **(environment or {})}

    def own_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=given, preexec_fn=own_the_terminal
    )
    os.close(slave)
    return Terminal(process, master, columns)


def run_in_terminal(
    command: Sequence[str],
    *,
    folder: Path,
    columns: int = 80,
    environment: Mapping[str, str] | None = None,
    act: Act | None = None,
    timeout: float = 540,
) -> Terminal:
    """Run a program to its end in a terminal of its own; ``act`` is called each time it has written something."""
    terminal, begin = _start(command, folder, columns, environment), time.monotonic()
    process, master = terminal.process, terminal.descriptor
    try:
        while time.monotonic() - begin < timeout:
            if not select.select([master], [], [], 0.1)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # nobody has the other end any more
                break
            if not data:
                break
            text = data.decode(errors="replace")
            terminal.written += text
            terminal.times.append((time.monotonic() - begin, text))
            if act is not None:
                act(terminal)
        process.wait(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        with contextlib.suppress(OSError):
            os.close(master)
    return terminal


@contextlib.contextmanager
def dialogue(
    command: Sequence[str], *, folder: Path, columns: int = 100, environment: Mapping[str, str] | None = None
) -> Iterator[Dialogue]:
    """A program in a terminal that one talks with. It has ended when the block is left."""
    terminal = _start(command, folder, columns, environment, rows=50)
    try:
        yield Dialogue(terminal)
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.descriptor)


class Dialogue:
    """Wait for what the program writes, then type. What was waited for is not found again."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._at = terminal, 0

    def type(self, text: str) -> None:
        self._terminal.type(text)

    def interrupt(self, times: int, seconds_apart: float) -> None:
        """Ctrl-C several times in a row."""
        for _ in range(times):
            self._terminal.process.send_signal(signal.SIGINT)
            time.sleep(seconds_apart)

    def expect(self, pattern: str, seconds: float = 60.0) -> str:
        """Wait until this is written, escape sequences included; what was written up to there."""
        end = time.monotonic() + seconds
        while (found := re.compile(pattern).search(self._terminal.written, self._at)) is None:
            assert time.monotonic() < end and self._read(), (
                f"{pattern!r} did not come: {self._terminal.written[self._at :][-1500:]!r}"
            )
        text, self._at = self._terminal.written[self._at : found.end()], found.end()
        return text

    def end(self, seconds: float = 30.0) -> int:
        """Wait for the program to end; its exit status."""
        until = time.monotonic() + seconds
        while self._terminal.process.poll() is None and time.monotonic() < until:
            self._read()
        return self._terminal.process.wait(1)

    def _read(self) -> bool:
        """Take what comes within a moment; False: nothing can come any more."""
        if not select.select([self._terminal.descriptor], [], [], 0.1)[0]:
            return self._terminal.process.poll() is None
        try:
            data = os.read(self._terminal.descriptor, 1 << 16)
        except OSError:
            return False
        self._terminal.written += data.decode(errors="replace")
        for _ in range(data.count(ASKS_FOR_CURSOR)):
            self.type("\x1b[10;1R")  # as terminals do: line 10, the first column
        return bool(data)


def eddyline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "eddyline.cli", *arguments]
