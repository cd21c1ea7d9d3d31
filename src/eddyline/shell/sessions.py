"""What the shell needs of a session, here or in a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from eddyline.client import RemoteQuery, RemoteSession
from eddyline.core.errors import JobError, did_you_mean
from eddyline.engine.row_warnings import LeftOut
from eddyline.engine.row_warnings import notes as left_out_notes
from eddyline.expr.functions import function_names
from eddyline.session import Session


class Target(Protocol):
    """A session, wherever its queries run. ``left`` says what becomes of a query that is not watched any more."""

    left: str

    def execute(self, text: str) -> list[str]:
        """Run statements; the names of the queries that were registered."""

    def check(self, text: str) -> None:
        """Raise the mistake in a query, without registering it."""

    def query(self, name: str | None) -> Any: ...
    def names(self) -> dict[str, list[str]]: ...
    def results(self, name: str) -> Iterator[pa.RecordBatch | None]:
        """Batches as they come; None where nothing came for a while; the end when no more can come."""

    def latest(self, name: str, rows: int) -> tuple[int, Iterator[pa.RecordBatch | None]]:
        """For a user who watches: the results from the last ``rows`` on, and how many there were before them."""

    def notes(self, name: str) -> list[str]:
        """Sentences on rows that were left out, those of the inputs of this query at least."""

    def drop(self, name: str) -> None: ...
    def functions(self) -> list[str]: ...
    def listed(self) -> list[tuple[str, str, str]]:
        """Kind, name and a word on each declaration and query."""


def chosen(names: list[str], name: str | None) -> str:
    """The query that a command is about; without a name the only one, or the last."""
    if name is None:
        if not names:
            raise JobError("no query is running yet.")
        return names[-1]
    for known in names:
        if known.lower() == name.lower():
            return known
    raise JobError(f"no query {name!r} is running.{did_you_mean(name, names)}")


class Local:
    """A session of this process."""

    left = "{name} is paused; \\watch {name} continues it."

    def __init__(self, session: Session) -> None:
        self.session = session
        session.warns = False  # the shell says it, for users who have no line of Python

    def notes(self, name: str) -> list[str]:
        return list(left_out_notes(self.session.left_out()))

    def execute(self, text: str) -> list[str]:
        return [q.name for q in self.session.execute(text)]

    def check(self, text: str) -> None:
        self.session.bind(text)

    def query(self, name: str | None) -> Any:
        called = chosen([q.name for q in self.session.queries], name)
        return next(q for q in self.session.queries if q.name == called)

    def names(self) -> dict[str, list[str]]:
        catalog = self.session.catalog
        declared: list[Any] = [*catalog.streams.values(), *catalog.relations.values()]
        found = {d.name: list(d.schema.names) for d in declared}
        return found | {n: [f.name for f in v.plan.schema] for n, v in catalog.views.items()}

    def results(self, name: str) -> Iterator[pa.RecordBatch | None]:
        query = self.query(name)
        while True:
            batches = query.fetch()
            yield from batches
            if not batches and not self.session.step():
                yield from query.fetch()
                if query.running.error is not None:
                    raise query.running.error
                return

    def latest(self, name: str, rows: int) -> tuple[int, Iterator[pa.RecordBatch | None]]:
        return 0, self.results(name)  # each is given once, and those that wait here have not been seen

    def drop(self, name: str) -> None:
        self.query(name).drop()

    def functions(self) -> list[str]:
        return sorted({*function_names(), *self.session.catalog.functions})

    def listed(self) -> list[tuple[str, str, str]]:
        catalog = self.session.catalog
        running = {q.name.lower() for q in self.session.queries}
        streams = [("stream", d.name, ", ".join(d.schema.names)) for d in catalog.streams.values()]
        relations = [("relation", d.name, ", ".join(d.schema.names)) for d in catalog.relations.values()]
        views = [("view", n, " ".join(v.text.split())) for n, v in catalog.views.items() if n not in running]
        queries = [("query", q.name, " ".join(q.running.query.text.split())) for q in self.session.queries]
        return [*streams, *relations, *views, *queries]


class Remote:
    """A session in a server."""

    left = "{name} goes on; \\watch {name} shows it again."

    def __init__(self, session: RemoteSession) -> None:
        self.session = session

    def notes(self, name: str) -> list[str]:
        streams: dict[str, dict[str, int]] = self.session.get(name).report().get("streams", {})
        found = [
            LeftOut(s, late=counts.get("late", 0), invalid=counts.get("invalid", 0), shed=counts.get("shed", 0))
            for s, counts in streams.items()
        ]
        return list(left_out_notes(found))

    def execute(self, text: str) -> list[str]:
        return [q.name for q in self.session.execute(text)]

    def check(self, text: str) -> None:
        self.session.bind(text)

    def query(self, name: str | None) -> Any:
        return self.session.get(chosen([q.name for q in self.session.queries], name))

    def names(self) -> dict[str, list[str]]:
        found = self.session.catalog
        return {d["name"]: [c for c, _ in d["columns"]] for kind in found.values() for d in kind}

    def results(self, name: str) -> Iterator[pa.RecordBatch | None]:
        return self._polled(self.query(name))

    def latest(self, name: str, rows: int) -> tuple[int, Iterator[pa.RecordBatch | None]]:
        query = self.query(name)  # a server keeps results by the hundred thousand
        return query.pass_over(rows), self._polled(query)

    def _polled(self, query: RemoteQuery) -> Iterator[pa.RecordBatch | None]:
        while True:
            batches, over = query.poll(1.0)
            yield from batches
            if not batches:
                if over:
                    return
                yield None

    def drop(self, name: str) -> None:
        self.session.drop(name)

    def functions(self) -> list[str]:
        return sorted(self.session.words()["functions"])

    def listed(self) -> list[tuple[str, str, str]]:
        out = []
        for kind, found in self.session.catalog.items():
            for d in found:
                word = (
                    f"{d['status']}, {d['rows']} rows: {d['text']}"
                    if kind == "queries"
                    else ", ".join(c for c, _ in d["columns"])
                )
                out.append(("query" if kind == "queries" else kind.rstrip("s"), d["name"], " ".join(word.split())))
        return out
