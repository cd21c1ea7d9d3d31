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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
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
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    given = {**os.environ, "TERM": "xterm", **(environment or {})}

    def own_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=given, preexec_fn=own_the_terminal
    )
    os.close(slave)
    terminal, begin = Terminal(process, master, columns), time.monotonic()
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


def eddyline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "eddyline.cli", *arguments]
