"""Checks of sources: the contract of ``io.source``, and that a session goes on where a snapshot was taken."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.engine.session import Session
from eddyline.io.conform import engine_schema
from eddyline.io.source import BATCH_ROWS, InvalidRow, Source, SourceBatch, plain
from eddyline.testing.checks.check import Check, CheckFailed, named, require, run_all

Rows = list[Any]

SIZES = (1, 2, 7, BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class SourceExample:
    """``make`` builds the source anew: that is what a restart does. ``timestamp`` is a column that does not decrease;
    with it the source is also read by a session. ``broken`` builds a source that cannot be read at all (a file that is
    missing): its error must be one of Eddyline's, a sentence that says what to do."""

    name: str
    make: Callable[[], Source]
    timestamp: str | None = None
    broken: Callable[[], object] | None = None
    endless: int | None = None  # rows after which the checks stop reading a source that does not end


def source_checks(example: SourceExample) -> Iterator[Check]:
    """The checks of a source."""
    checks = [
        ("the schema has types of the engine", partial(_schema, example)),
        ("a restart reads the same rows", partial(_restarts, example)),
        ("batches are bounded, and their size does not matter", partial(_batches, example)),
        ("any columns can be read, in any order", partial(_columns, example)),
        ("malformed rows are the same whatever is read", partial(_invalid, example)),
        ("reading can stop early", partial(_stops, example)),
    ]
    if example.timestamp is not None:
        checks.append(("a session goes on after a snapshot", partial(_resumes, example)))
    if example.broken is not None:
        checks.append(("an error is a sentence", partial(_sentence, example)))
    yield from named("source", example.name, checks)


def check_source(
    name: str,
    make: Callable[[], Source],
    *,
    timestamp: str | None = None,
    broken: Callable[[], object] | None = None,
    endless: int | None = None,
) -> int:
    """Check a source of one's own; how many checks there were. The first that fails raises ``CheckFailed``."""
    return run_all(source_checks(SourceExample(name, make, timestamp, broken, endless)))


def _read(
    example: SourceExample, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
) -> tuple[Rows, list[InvalidRow]]:
    """The rows as tuples and the malformed ones, in order."""
    source = example.make()
    names = list(source.schema.names) if columns is None else list(columns) or source.schema.names[:1]
    wanted = pa.schema([source.schema.field(n) for n in names])
    rows: Rows = []
    invalid: list[InvalidRow] = []
    batches: Any = source.open(columns, batch_rows)
    for batch in batches:
        require(isinstance(batch, SourceBatch), f"it yields {type(batch).__name__}, not SourceBatch")
        require(batch.rows.num_rows <= batch_rows, f"a batch has {batch.rows.num_rows} rows, more than {batch_rows}")
        require(batch.rows.schema.names == names, f"a batch has the columns {batch.rows.schema.names}, not {names}")
        data = plain(batch.rows, wanted).to_pydict()
        rows += list(zip(*(map(repr, data[n]) for n in names), strict=True))
        invalid += batch.invalid
        if example.endless is not None and len(rows) >= example.endless:
            batches.close()
            return rows[: example.endless], invalid
    return rows, invalid


def _schema(example: SourceExample) -> None:
    source = example.make()
    require(isinstance(source, Source), "it has no schema, no finite or no open")
    for f, engine in zip(source.schema, engine_schema(source.schema, example.name), strict=True):
        require(f.type == engine.type, f"the column {f.name!r} has the type {f.type}, the engine has {engine.type}")
    require(isinstance(source.finite, bool), f"finite is {source.finite!r}")


def _restarts(example: SourceExample) -> None:
    first, second = _read(example), _read(example)
    require(first[0], "it has no rows: the checks can say nothing about it")
    require(first == second, f"opened again it yields {len(second[0])} rows, not the same {len(first[0])}")


def _batches(example: SourceExample) -> None:
    want = _read(example)
    for size in SIZES:
        require(_read(example, batch_rows=size) == want, f"with batches of {size} rows it yields other rows")


def _columns(example: SourceExample) -> None:
    names: list[str] = example.make().schema.names
    rows = _read(example)[0]
    choices: list[list[str]] = [names[::-1], names[:1], names[-1:], []]
    for wanted in choices:
        places = [names.index(n) for n in wanted] or [0]
        want = [tuple(row[i] for i in places) for row in rows]
        require(_read(example, wanted)[0] == want, f"with the columns {wanted} it yields other rows")


def _invalid(example: SourceExample) -> None:
    want = _read(example)[1]
    last: list[str] = example.make().schema.names[-1:]
    choices: list[list[str]] = [last, []]
    for wanted in choices:
        got = _read(example, wanted)[1]
        require(got == want, f"with the columns {wanted} {len(got)} rows are malformed instead of {len(want)}")
    for row in want:
        require(row.reason, f"the malformed row {row.row!r} has no reason")


def _stops(example: SourceExample) -> None:
    batches: Any = example.make().open(None, 1)
    with closing(batches):
        next(batches)
    require(next(batches, None) is None, "it goes on after it was closed")


def _resumes(example: SourceExample) -> None:
    def start() -> tuple[Session, Any]:
        session = Session()
        session.stream("S", example.make(), timestamp=example.timestamp)
        return session, session.query("SELECT Istream(*) FROM S")

    session, query = start()
    want = query.to_arrow().to_pylist()
    require(want, "a session reads no rows")
    session, query = start()
    session.step()
    with tempfile.TemporaryDirectory() as folder:
        got = [row for batch in query.fetch() for row in batch.to_pylist()]
        session.snapshot(folder)
        session, query = start()
        session.restore(folder)
        got += query.to_arrow().to_pylist()
    require(
        sorted(map(str, got)) == sorted(map(str, want)),
        f"restored from a snapshot a session has {len(got)} results instead of the same {len(want)}",
    )


def _sentence(example: SourceExample) -> None:
    assert example.broken is not None
    try:
        source: Any = example.broken()
        list(source.open())
    except EddylineError as error:
        require(str(error).rstrip().endswith((".", "?", "^")), f"the error is no sentence: {error}")
        return
    except Exception as error:
        raise CheckFailed(
            f"a source that cannot be read raises {type(error).__name__}, not an EddylineError"
        ) from error
    raise CheckFailed("a source that cannot be read raises nothing")
