"""Start the shell: on a terminal with the line editor, otherwise with what standard input brings."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from eddyline.client import connect
from eddyline.core.folders import cache_folder
from eddyline.session import Session
from eddyline.shell.commands import Quit, Shell
from eddyline.shell.interrupts import interrupts_ignored
from eddyline.shell.prompt import complete, editor
from eddyline.shell.sessions import Local, Remote, Target


def shell(url: str | None, token: str | None) -> int:
    """Run until the user leaves. The exit status says whether an input from a pipe had a mistake."""
    target: Target = Local(Session(base=Path.cwd())) if url is None else Remote(connect(url, token))
    if url is not None:
        target.names()  # a server that does not answer is said at once
    if not sys.stdin.isatty():
        return _piped(target, watch=url is None)
    console = Console()
    running = Shell(target, console)
    where = "a session in this process" if url is None else url.partition("#")[0]
    console.print(f"eddyline shell: {where}. \\help lists commands, Ctrl-D leaves.", markup=False, highlight=False)
    prompt = editor(target, _history())
    while True:
        try:
            with interrupts_ignored():
                text = prompt.prompt()
            running.run(text)
        except KeyboardInterrupt:
            continue
        except (EOFError, Quit):
            return 0


def _piped(target: Target, *, watch: bool) -> int:
    """In a server a query goes on by itself, often without end: it is registered, and what comes next is run."""
    running = Shell(target, Console(file=sys.stdout, width=200, force_terminal=False), watch=watch)
    text = ""
    for line in sys.stdin:
        text += line
        if complete(text):
            try:
                running.run(text)
            except Quit:
                return 2 if running.failed else 0
            text = ""
    if text.strip():
        running.run(text)
    return 2 if running.failed else 0


def _history() -> Path | None:
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / "shell-history"
    except OSError:
        return None
