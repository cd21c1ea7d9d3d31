"""The progress line: throttled on a terminal, absent in a pipe."""

from __future__ import annotations

import io

import pytest

from eddyline.engine import progress as module
from eddyline.engine.progress import Progress
from tests.terminal import screen as seen


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


def test_the_rate_of_events_that_come_in_lumps() -> None:
    """A micro-batch of 500,000 events every two seconds is 250,000 a second, however often somebody looks."""
    out, clock = Terminal(), HandClock()
    progress = Progress(out, clock)
    for step in range(60):
        clock.at = step * 200_000_000
        progress.update(step // 10 * 500_000, 0, None, 0, 0)
    shown = [line.split("  ")[1] for line in lines(out) if "/s" in line]
    assert set(shown) == {"250.0 k/s"} and len(shown) > 30
    clock.at += 20_000_000_000  # for a long time nothing came
    progress.update(2_500_000, 0, None, 0, 0)
    assert float(lines(out)[-1].split("  ")[1].removesuffix(" k/s")) < 25


def test_what_others_write_stands_above_the_line() -> None:
    out, clock = Terminal(), HandClock()
    progress = Progress(out, clock)
    table = progress.above(out)
    for step in range(3):
        clock.at += 1_000_000_000
        progress.update(step, 0, None, 0, 0)
        print(f"row {step}", file=table)
    progress.update(4, 0, None, 0, 0)
    assert seen(out.getvalue()) == ["row 0", "row 1", "row 2", "4 events  1/s  0 results"]
    progress.finish()
    assert seen(out.getvalue()) == ["row 0", "row 1", "row 2"]
    plain = io.StringIO()
    assert progress.above(plain) is plain  # a file has no line to stand above


def test_a_line_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(module.shutil, "get_terminal_size", lambda *_, **__: module.os.terminal_size((20, 24)))
    progress = Progress(out, HandClock())
    progress.update(1_000_000, 2_000_000, 3.0, 4_000_000, 5_000_000)
    assert seen(out.getvalue(), columns=20) == ["1,000,000 events  …"]
    progress.finish()
    assert seen(out.getvalue(), columns=20) == []


def test_a_note_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTE_SECONDS", 0.001)
    out = Terminal()
    progress = Progress(out)
    progress.note("starting Spark on local[2]")
    while "… 0 s" not in out.getvalue():
        pass
    progress.update(1, 1, None, 0, 0)
    assert seen(out.getvalue()) == ["1 events  1 result"]


def test_a_terminal_that_cannot_erase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not Progress(Terminal()).active


def test_what_comes_again_goes_on_counting() -> None:
    out, clock = Terminal(), HandClock()
    progress = Progress(out, clock)
    for _ in range(2):
        with progress.temporary_note("compiling"):
            clock.at += 4_000_000_000
        assert seen(out.getvalue()) == []
    assert lines(out) == ["compiling …", "", "compiling … 4 s", ""]
