"""Learned statistics and plans of earlier runs, kept in a file, by a fingerprint of the query's text and operators.

The file is JSON: ``{"format": 1, "queries": {fingerprint: {"text": …, "rates": {…}, "operators": {name: …}}}}``. What
other queries learned stays in it. It never changes an answer, so a missing file is no error. A damaged file is refused
with an error, because the user named it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError, JobError
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.session_protocols import DescribedQuery
from eddyline.io import durable

FORMAT: Final = 1
NAME: Final = "learned.json"  # beside a checkpoint


def fingerprint(running: RunningQuery) -> str:
    """Of the text and the operators of a query: whitespace does not matter, a view that means something else does."""
    nodes = [[n.name, list(n.inputs), n.note] for n in running.physical.nodes]
    return hashlib.sha256(json.dumps([" ".join(running.query.text.split()), nodes]).encode()).hexdigest()[:32]


class Learned:
    """What is known of earlier runs, and which starting plans of this one are still to be judged."""

    def __init__(self, path: Path | None = None, known: Mapping[str, Any] | None = None) -> None:
        self.path = path / NAME if path is not None and path.is_dir() else path
        self.known: dict[str, Any] = dict(known or {})
        self._reviews: list[tuple[RunningQuery, str, Mapping[str, Any]]] = []  # with the name of the operator
        if self.path is not None and self.path.exists():
            self.known |= _read(self.path)

    def start(self, running: RunningQuery) -> None:
        """Begin a query with what an earlier run of it learned; also one that is planned anew before it has begun."""
        self._reviews = [r for r in self._reviews if r[0] is not running]
        found = self.known.get(fingerprint(running), {}).get("operators", {}) if self.known else {}
        if not found:
            return
        from eddyline.adapting.starting_plan import start_from

        for node in running.physical.nodes:
            learned = found.get(node.name)
            if node.operator is not None and learned is not None:
                decision = start_from(node.operator, learned)
                if decision is not None:
                    running.context.log.record(decision, operator=node.name)
                    self._reviews.append((running, node.name, learned))

    @property
    def reviewing(self) -> bool:
        return bool(self._reviews)

    def review(self) -> None:
        """Judge the starting plans that have been at work long enough."""
        from eddyline.adapting.starting_plan import review

        left = []
        for running, name, learned in self._reviews:
            if running.error is not None or name not in running.operators:
                continue
            judged, decision = review(running.operators[name].operator, learned)
            if decision is not None:
                running.context.log.record(decision, operator=name)
            if not judged:
                left.append((running, name, learned))
        self._reviews = left

    def take(self, query: DescribedQuery) -> None:
        """Remember the statistics of a query by now."""
        rates = {s.name: s.arrived for s in query.running.inputs.values()}
        self.remember(fingerprint(query.running), query.running.query.text, rates, query._statistics())

    def remember(
        self, mark: str, text: str, rates: Mapping[str, int], statistics: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """``statistics`` are those of the operators, by name."""
        from eddyline.adapting.starting_plan import learned_by

        operators = {name: found for name, known in statistics.items() if (found := learned_by(known)) is not None}
        if operators:
            self.known[mark] = {"text": text, "rates": dict(rates), "operators": operators}

    def save(self, path: Path | None = None, *, alone: bool = False) -> None:
        """Write the file, whole or not at all; what others have written into it stays, unless it is ours ``alone``."""
        target = path or self.path
        if target is None:
            raise JobError("there is no file for what was learned: name one with ed.Session(learned='plans.json').")
        kept = _read(target) if target.exists() and not alone else {}
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            durable.write(target, json.dumps({"format": FORMAT, "queries": {**kept, **self.known}}, indent=1).encode())
        except OSError as e:
            raise EddylineError(f"what was learned cannot be written to {str(target)!r}: {e.strerror}.") from e


def _read(path: Path) -> dict[str, Any]:
    remedy = "remove it, or name another file"
    try:
        found = json.loads(path.read_bytes())
    except OSError as e:
        raise JobError(f"what was learned cannot be read from {str(path)!r}: {e.strerror}.") from e
    except (ValueError, RecursionError):
        raise JobError(f"{str(path)!r} is damaged, or no file of what was learned: {remedy}.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not _whole(found.get("queries")):
        raise JobError(f"{str(path)!r} holds nothing that this version could have learned: {remedy}.")
    return dict(found["queries"])


def _whole(queries: Any) -> bool:
    """Whether a file has the shape that was written."""
    entries = queries.values() if isinstance(queries, dict) else [None]
    operators = [e.get("operators") if isinstance(e, dict) else None for e in entries]
    return all(isinstance(o, dict) and all(isinstance(v, dict) for v in o.values()) for o in operators)
