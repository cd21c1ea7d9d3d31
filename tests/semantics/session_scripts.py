"""What happens in a session, drawn once and run twice: with sharing, and without. Every query answers the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import eddyline as ed

Row = dict[str, int | None]


class SessionScript:
    """``rows`` are those of each stream in the order of their arrival; ``draw`` gives a query's text and options."""

    def __init__(
        self,
        rng: random.Random,
        schema: pa.Schema,
        rows: Mapping[str, list[Row]],
        slack: int,
        draw: Callable[[random.Random], tuple[str, dict[str, Any]]],
        largest: int = 40,
    ) -> None:
        self.schema, self.streams, self.slack = schema, tuple(rows), slack
        self.steps: list[tuple[str, Any]] = []
        at, named = dict.fromkeys(rows, 0), 0
        while any(at[n] < len(r) for n, r in rows.items()):
            kind = rng.choices(("push", "query", "drop", "switch", "restore"), (6, 3, 1, 0.7, 0.5))[0]
            match kind:
                case "push":
                    name = rng.choice([n for n, r in rows.items() if at[n] < len(r)])
                    size = rng.randint(1, largest)
                    self.steps.append(("push", (name, rows[name][at[name] : at[name] + size])))
                    at[name] += size
                case "query":
                    self.steps.append(("query", (f"q{named}", *draw(rng))))
                    named += 1
                case _:
                    self.steps.append((kind, rng.random()))

    def play(
        self, shared: bool, folder: Path, seen: Counter[str], watch: Callable[[ed.Session, Counter[str]], None]
    ) -> dict[str, list[Any]]:
        """The answers of all queries, in the order of time. ``watch`` looks at the session after each step."""
        session = self.declared(shared)
        asked: dict[str, tuple[str, dict[str, Any]]] = {}
        queries: dict[str, Any] = {}
        answers: dict[str, list[Any]] = {}
        for number, (kind, what) in enumerate(self.steps):
            if kind == "push":
                session.push(*what)
            elif kind == "query":
                name, text, options = what
                asked[name] = text, options
                queries[name], answers[name] = session.query(text, name=name, **options), []
            elif kind == "drop" and queries:
                name = sorted(queries)[int(what * len(queries))]
                queries.pop(name).drop()
                del asked[name]
            elif kind == "switch" and shared:
                session.sharing = what < 0.6
            elif kind == "restore":
                seen["moved"] += session._graph.registry.joined
                session.snapshot(folder / f"{shared}-{number}")
                session = self.declared(shared)
                queries = {n: session.query(t, name=n, **options) for n, (t, options) in asked.items()}
                session.restore(folder / f"{shared}-{number}")
            seen[kind] += 1
            watch(session, seen)
            self._fetch(queries, answers)
        session.finish()
        self._fetch(queries, answers)
        seen["moved"] += session._graph.registry.joined
        return answers

    @staticmethod
    def _fetch(queries: Mapping[str, Any], answers: Mapping[str, list[Any]]) -> None:
        for name, query in queries.items():
            answers[name] += [r for b in query.fetch() for r in b.to_pylist()]

    def declared(self, shared: bool) -> ed.Session:
        session = ed.Session(sharing=shared)
        for name in self.streams:
            session.stream(name, schema=self.schema, timestamp="ts", slack=self.slack)
        return session
