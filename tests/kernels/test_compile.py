"""When kernels are compiled, where, by whom, and what is left of it. Each test has a cache of its own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config

from eddyline.core.errors import JobError
from eddyline.kernels import cache, compile, helper, waiting, warm
from tests.terminal import screen

if config.DISABLE_JIT:  # there is nothing to compile
    pytest.skip("kernels run as plain Python", allow_module_level=True)

FEW, MANY = np.arange(10), np.arange(5_000_000)
ENDS = 60.0  # seconds until something must have happened


class Fresh:
    """The kernels of ``tests.kernels.small``, as a process sees them that has not used them yet."""

    def __init__(self) -> None:
        sys.modules.pop("tests.kernels.small", None)
        import tests.kernels.small as module

        self.module: Any = module
        self.add_up = compile.registered["tests.kernels.small.add_up"]
        self.twice = compile.registered["tests.kernels.small.twice"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(cache, "_given", tmp_path)
    monkeypatch.delenv(compile.VARIABLE, raising=False)
    monkeypatch.setattr(helper, "_process", None)
    monkeypatch.setattr(helper, "_failed", set())
    monkeypatch.setattr(helper, "_locks", {})
    yield tmp_path
    process: Any = helper._process
    if process is not None:  # it ends because nobody can ask it any more
        process.stdin.close()
        process.wait(ENDS)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + ENDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_small_input_has_nothing_compiled(place: Path) -> None:
    small = Fresh()
    assert small.module.twice(FEW) == 90
    assert not small.twice.compiled and not small.add_up.compiled
    assert helper._process is None
    assert small.twice.elements == 10


def test_a_large_input_waits_for_the_compiler(place: Path) -> None:
    small = Fresh()
    assert small.module.add_up(MANY) == small.module.expected(MANY)
    assert small.add_up.compiled and small.add_up.spent == 0
    assert cache.holds(small.add_up.name)
    assert not small.twice.compiled  # nobody has asked for it


def test_a_kernel_is_loaded_where_the_cache_has_it_and_not_compiled_for_that(place: Path) -> None:
    small = Fresh()
    assert not compile.load_compiled(small.module.add_up) and not small.add_up.compiled
    small.add_up.compile()
    again = Fresh()
    assert not compile.is_compiled(again.module.add_up)
    assert compile.load_compiled(again.module.add_up) and again.add_up.compiled
    assert helper._process is None


def test_a_wait_for_the_compiler_is_announced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[str] = []

    @contextlib.contextmanager
    def announce(text: str) -> Iterator[None]:
        announced.append(text)
        yield
        announced.append("ready" if cache.holds(small.add_up.name) else "not yet")

    monkeypatch.setattr(waiting, "announce", announce)
    small = Fresh()
    small.module.add_up(FEW)
    assert announced == []
    small.module.add_up(MANY)
    assert announced == [waiting.COMPILING, "ready"]


def test_many_small_inputs_go_on_while_a_process_compiles(place: Path) -> None:
    small = Fresh()
    small.add_up.spent = small.add_up.seconds
    small.add_up.elements = 10_000_000
    assert small.module.add_up(FEW) == 45
    assert not small.add_up.compiled and helper._process is not None  # asked, and not waited for
    until(lambda: cache.holds(small.add_up.name))
    until(lambda: small.module.add_up(FEW) == 45 and small.add_up.compiled)
    with cache.locked(small.add_up.name, wait=False) as free:
        assert free


def test_what_small_jobs_have_used_is_compiled_for_the_next(place: Path) -> None:
    small = Fresh()
    cache.add_uncompiled(small.add_up.name, 1.0)
    cache.add_uncompiled(small.add_up.name, 2.0)
    assert small.module.add_up(FEW) == 45
    assert helper._process is not None and not small.add_up.compiled
    until(lambda: cache.holds(small.add_up.name))
    again = Fresh()
    assert again.module.add_up(FEW) == 45
    assert again.add_up.compiled and again.add_up.elements == 0


def test_all_is_compiled_at_once_where_that_is_wanted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compile.VARIABLE, compile.AT_ONCE)
    small = Fresh()
    assert small.module.twice(FEW) == 90
    assert small.twice.compiled and helper._process is None
    assert cache.holds(small.twice.name) and cache.holds(small.add_up.name)  # what it calls is saved too


def test_no_other_wish_is_known(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compile.VARIABLE, "atonce")
    with pytest.raises(JobError, match="EDDYLINE_COMPILE is 'atonce'; it must be at-once, or not be set"):
        Fresh().module.add_up(FEW)


def test_without_a_process_apart_this_one_compiles(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    small = Fresh()
    assert small.module.add_up(MANY) == small.module.expected(MANY)
    assert small.add_up.compiled and helper._process is None


def test_a_process_apart_that_fails_is_not_asked_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    small = Fresh()
    small.add_up.spent = small.add_up.seconds / 2
    small.add_up.elements = 10_000_000
    assert small.module.add_up(FEW) == 45
    failed: Any = helper._process
    failed.wait()
    for _ in range(3):
        assert small.module.add_up(FEW) == 45
    assert helper._process is failed and not small.add_up.compiled
    small.add_up.elements = 10
    assert small.module.add_up(MANY) == small.module.expected(MANY)
    assert small.add_up.compiled


def test_a_damaged_file_is_made_anew(place: Path) -> None:
    first = Fresh()
    first.add_up.compile()
    for file in cache.folder_of(first.add_up.name).rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:100])
    second = Fresh()
    assert second.module.add_up(FEW) == 45
    assert second.add_up.compiled
    third = Fresh()
    assert third.module.add_up(FEW) == 45 and third.add_up.compiled


def test_arguments_of_other_types_are_refused_in_both_forms(place: Path) -> None:
    small = Fresh()
    assert small.module.add_up(FEW) == 45
    with pytest.raises(TypeError, match="argument 0 of add_up"):
        small.module.add_up(FEW * 0.5)
    small.twice.compile()
    with pytest.raises(TypeError, match="argument 0 of add_up"):  # compiled as a part of the other
        small.module.add_up(FEW * 0.5)


# ── several processes ─────────────────────────────────────────────────────────────────────────────────────────────


def start(code: str, place: Path) -> subprocess.Popen[str]:
    given = f"from pathlib import Path\nfrom eddyline.kernels import cache, helper\ncache.use(Path({str(place)!r}))\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment.pop(compile.VARIABLE, None)
    # Whoever runs the tests in the background ignores Ctrl-C, and children would do so, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command = [sys.executable, "-c", given + code]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)


def gone(process: int) -> bool:
    """Ended, whether or not somebody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_its_kernel_and_no_process(how: signal.Signals, place: Path) -> None:
    name = "eddyline.kernels.keys.intern"
    code = f"""
import time
helper.compiled({name!r}, wait=False)
print(helper._process.pid, flush=True)
time.sleep(600)
"""
    process = start(code, place)
    assert process.stdout is not None
    apart = int(process.stdout.readline())
    process.send_signal(how)
    assert process.wait(ENDS) != 0
    process.stdout.close()
    until(lambda: gone(apart))
    assert cache.holds(name)


def test_of_several_processes_one_compiles(place: Path) -> None:
    code = "helper.compiled('eddyline.kernels.keys.intern', wait=True)\nprint(helper._process is not None)"
    processes = [start(code, place) for _ in range(3)]
    answers = [p.communicate(timeout=2 * ENDS)[0].strip() for p in processes]
    assert sorted(answers) == ["False", "False", "True"]


def test_an_idle_process_ends(place: Path) -> None:
    assert helper.compiled("tests.kernels.small.add_up", wait=True)
    process: Any = helper._process
    assert process.wait(ENDS) == 0


# ── warm ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_warm_compiles_what_is_missing_and_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = Fresh()
    monkeypatch.setattr(warm, "all_kernels", lambda: [small.add_up, small.twice])
    assert warm.warm() == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 of 2 kernels are to be compiled into {place}"
    assert "small.add_up" in lines[1] and "small.twice" in lines[2]
    assert warm.warm() == 0
    assert capsys.readouterr().out.startswith("0 of 2 kernels are to be compiled")


def test_warm_on_a_terminal_says_what_it_is_at_in_one_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Fresh()
    monkeypatch.setattr(warm, "all_kernels", lambda: [small.add_up, small.twice])
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert warm.warm(terminal) == 2
    written = terminal.getvalue()
    assert "1 of 2: " in written and "2 of 2: " in written and "small.twice" in written
    first, last = screen(written, columns=400)
    assert first.startswith("2 of 2 kernels are to be compiled") and last.startswith("all kernels are compiled, in ")


def test_warm_knows_every_kernel() -> None:
    names = {k.name.removeprefix("eddyline.kernels.") for k in warm.all_kernels()}
    assert {"join.mjoin", "join.plain_mjoin", "keys.intern", "superaccumulator.sum_doubles"} <= names
    assert not any("small" in n for n in names)
    sizes = [k.seconds for k in warm.all_kernels()]
    assert sizes == sorted(sizes)
