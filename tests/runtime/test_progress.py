"""The progress line: throttled on a terminal, absent in a pipe."""

from __future__ import annotations

import io

from eddyline.runtime.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class HandClock:
    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at // 1000

    def nanoseconds(self) -> int:
        return self.at


def lines(screen: io.StringIO) -> list[str]:
    return [part.removesuffix("\x1b[K") for part in screen.getvalue().split("\r") if part]


def test_five_times_a_second() -> None:
    screen, clock = Terminal(), HandClock()
    progress = Progress(screen, clock)
    for step in range(100):
        clock.at = step * 10_000_000  # a hundred updates in a second
        progress.update(step * 1000, step, None, 0, 0)
    assert lines(screen)[0] == "0 events  0 results"
    assert len(lines(screen)) == 5
    assert lines(screen)[-1] == "80,000 events  100.0 k/s  80 results"


def test_lag_and_state_and_the_end() -> None:
    screen = Terminal()
    progress = Progress(screen, HandClock())
    progress.note("compiling kernels …")
    progress.finish()
    progress.update(5, 1, 0.25, 7, 2048)
    assert lines(screen)[-1] == "5 events  1 result  lag 250 ms  state 7 rows, 2.0 kB"
    progress.finish()
    progress.finish()
    assert screen.getvalue().endswith("\r\x1b[K") and screen.getvalue().count("\r\x1b[K") == 2


def test_nothing_in_a_pipe_or_when_quiet() -> None:
    for progress, out in ((Progress(p := io.StringIO()), p), (Progress(t := Terminal(), quiet=True), t)):
        progress.update(1, 1, None, 0, 0)
        progress.note("compiling")
        progress.finish()
        assert out.getvalue() == "" and not progress.active
