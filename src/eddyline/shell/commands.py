"""The shell without its line editor: statements and commands in, text out."""

from __future__ import annotations

from collections import deque
from typing import Any, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from eddyline.core.errors import EddylineError, JobError, did_you_mean
from eddyline.cql.job import QueryStatement, parse_job
from eddyline.io.render import TablePrinter, brief, shown
from eddyline.shell.completion import COMMANDS
from eddyline.shell.interrupts import first_interrupt_only
from eddyline.shell.sessions import Target

SHOWN_ROWS = 20  # of a live table
HELP = """Statements end with a semicolon: CREATE STREAM …; SELECT …; ALTER QUERY …; PIN QUERY …; UNDO DECISION …;
A query that is typed is registered and watched until Ctrl-C.
\\list                 what is declared and what runs
\\watch [query]        results as they come, until Ctrl-C
\\plan [query]         the plan with its counts, and what was decided
\\decisions [query]    the log of decisions
\\pin, \\unpin [query]  keep the plans as they are, let them change again
\\undo number [query]  set back what a decision changed
\\drop name            deregister a query; in a server also take back a stream, a relation or a view
\\quit                 leave (also Ctrl-D)"""


PLAIN = {"help": "\\help", "quit": "\\quit", "exit": "\\quit"}  # what people type before they know of the backslash


class Quit(Exception):
    pass


def command_of(text: str) -> str | None:
    """The command that an input is; None: it is statements.

    >>> command_of(" \\\\plan q"), command_of("exit;"), command_of("SELECT a FROM S;")
    ('\\\\plan q', '\\\\quit', None)
    """
    text = text.strip()
    return text if text.startswith("\\") else PLAIN.get(text.removesuffix(";").strip().lower())


class Shell:
    """Runs one input after another. A mistake is printed, and the next input is taken."""

    def __init__(self, target: Target, console: Console, *, watch: bool = True) -> None:
        self.target, self.console, self._watch = target, console, watch
        self.failed = 0
        self._noted: set[str] = set()

    def run(self, text: str) -> None:
        """Raises ``Quit`` when the user wants to leave."""
        try:
            command = command_of(text)
            if command is not None:
                self._command(command)
            elif text.strip():
                self._statements(text)
        except EddylineError as error:
            self.failed += 1
            self.console.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)

    def _statements(self, text: str) -> None:
        made = self.target.execute(text)
        for name in made:
            self._say(f"registered: {name}")
        if self._watch and made and isinstance(parse_job(text)[-1], QueryStatement):
            self.watch(made[-1])

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _command(self, text: str) -> None:
        word, *rest = text.split(None, 1)
        argument = rest[0].strip() if rest else None
        match word:
            case "\\quit" | "\\q":
                raise Quit
            case "\\help" | "\\h" | "\\?":
                self._say(HELP)
            case "\\list" | "\\l":
                self._list()
            case "\\plan" | "\\explain":
                self._say(self.target.query(argument).explain())
            case "\\decisions":
                self._decisions(argument)
            case "\\watch":
                self.watch(self.target.query(argument).name)
            case "\\pin" | "\\unpin":
                query = self.target.query(argument)
                pinned = word == "\\pin"
                made = query.pin() if pinned else query.unpin()
                self._say(f"{query.name} is {'pinned' if pinned else 'not pinned'}" + ("" if made else " already"))
            case "\\undo":
                self._undo(argument)
            case "\\drop":
                if argument is None:
                    raise JobError("\\drop needs a name.")
                self.target.drop(argument)
                self._say(f"dropped: {argument}")
            case _:
                near = did_you_mean(word, COMMANDS).replace("\\\\", "\\")  # quoted as it is typed
                raise JobError(f"there is no command {word}.{near} \\help lists them.")

    def _list(self) -> None:
        table = Table(box=None, header_style="bold")
        for column in ("kind", "name", ""):
            table.add_column(column)
        for row in self.target.listed():
            table.add_row(*map(escape, row))
        self.console.print(table)

    def _decisions(self, name: str | None) -> None:
        table = Table(box=None, header_style="bold")
        for column in ("no.", "by", "operator", "what", "after", "expected", "measured", "why"):
            table.add_column(column, justify="right" if column in ("no.", "expected", "measured") else "left")
        for d in self.target.query(name).decisions:
            after = shown(brief(d.after)) if d.applied else "(not applied)"
            cells = (
                d.sequence,
                d.by,
                d.operator,
                d.kind,
                after,
                _ratio(d.expected_gain),
                _ratio(d.measured_gain),
                d.reason,
            )
            table.add_row(*(escape(str(c)) for c in cells))
        self.console.print(table)

    def _undo(self, argument: str | None) -> None:
        number, _, name = (argument or "").partition(" ")
        if not number.isdecimal():
            raise JobError("\\undo needs the number of a decision, as \\decisions shows it.")
        for d in self.target.query(name.strip() or None).undo(int(number)):
            self._say(f"{d.kind}: {d.reason}")

    def watch(self, name: str) -> None:
        """Show results as they come: on a terminal the last rows in a table that updates, elsewhere all of them."""
        if not self.console.is_terminal:
            self._print_all(name)
            self._notes(name)
            return
        with first_interrupt_only():
            try:
                self._live(name)
                self._say(f"{name} is over: no more results come.")
            except KeyboardInterrupt:
                self._say(self.target.left.format(name=name))
        self._notes(name)

    def _live(self, name: str) -> None:
        last: deque[dict[str, Any]] = deque(maxlen=SHOWN_ROWS)
        count, results = self.target.latest(name, SHOWN_ROWS)
        waiting = Text(f"{name}: waiting for results (Ctrl-C ends)")
        with Live(waiting, console=self.console, refresh_per_second=8, transient=False) as live:
            for batch in results:
                if batch is not None:
                    count += len(batch)
                    last.extend(batch.slice(max(0, len(batch) - SHOWN_ROWS)).to_pylist())
                live.update(_table(name, list(last), count))
            live.update(_table(name, list(last), count))

    def _notes(self, name: str) -> None:
        """What was left out of the inputs, once."""
        for note in self.target.notes(name):
            if note not in self._noted:
                self._noted.add(note)
                self._say(f"note: {note}")

    def _print_all(self, name: str) -> None:
        printer, count = None, 0
        for batch in self.target.results(name):
            if batch is not None:
                printer = printer or TablePrinter(batch.schema, cast(TextIO, self.console.file))
                printer.rows(batch)
                count += len(batch)
        if printer is not None:
            printer.end(count)
        else:
            self._say("(0 rows)")


def _table(name: str, rows: list[dict[str, Any]], count: int) -> RenderableType:
    title = Text(f"{name}: {count:,} {'row' if count == 1 else 'rows'}")
    if not rows:  # a table without columns is drawn as nothing
        return title
    table = Table(header_style="bold")  # its own title would be folded to its width
    for column in rows[-1] if rows else ():
        number = isinstance(rows[-1][column], int | float)
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(escape(shown(v)) for v in row.values()))
    return Group(title, table)


def _ratio(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}×"
