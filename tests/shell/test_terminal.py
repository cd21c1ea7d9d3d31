"""The shell in a real terminal: somebody types, makes mistakes, interrupts and leaves."""

from __future__ import annotations

from pathlib import Path

from tests.terminal import Terminal, eddyline, run_in_terminal

# What is waited for, and what is typed then. A carriage return is the key Enter; \x03 is Ctrl-C, \x04 is Ctrl-D.
TYPED = (
    ("Ctrl-D leaves", "CREATE STREAM readings FROM 'readings.csv' TIMESTAMP BY ts;\r"),
    ("cql> ", "warm: SELECT Istream(celsius * 10 AS tenths) FROM readings WHERE celcius > 4;\r"),
    ("^^^^^^^", ""),
    ("cql> ", "SELECT Istream(celsius FROM\x03"),
    ("cql> ", "warm: SELECT Istream(celsius * 10 AS tenths) FROM readings WHERE celsius > 4;\r"),
    ("55", "\\plan warm\r"),
    ("project", "\x04"),
)
QUIET = {"PROMPT_TOOLKIT_NO_CPR": "1"}  # this terminal does not tell where its cursor is


def test_statements_mistakes_and_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text("ts,celsius\n1,5.5\n2,3.5\n3,4.5\n4,2.0\n")
    step, seen = 0, 0

    def act(terminal: Terminal) -> None:
        nonlocal step, seen
        while step < len(TYPED):
            wanted, text = TYPED[step]
            shown = terminal.written[seen:]
            if wanted not in shown:
                return
            seen, step = seen + shown.index(wanted) + len(wanted), step + 1
            terminal.type(text)

    ended = run_in_terminal(eddyline("shell"), folder=tmp_path, columns=120, environment=QUIET, act=act, timeout=200)
    assert step == len(TYPED), ended.written[-3000:]
    assert ended.process.returncode == 0 and "Traceback" not in ended.written
