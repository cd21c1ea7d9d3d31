"""Decides how far each micro-batch goes and which task reads what: all sources of a job together.

Runs in a process beside the driver that lives as long as the query. Everything that must survive it is in the offsets:
the place of each source and the wall-clock time of the micro-batch, so that one that is run again has the same rows
with the same stamps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eddyline.core.errors import EddylineError
from eddyline.core.time import Clock, SystemClock
from eddyline.spark.sources.balance import by_part, by_time
from eddyline.spark.sources.parts import Parts
from eddyline.spark.sources.places import Place
from eddyline.spark.sources.tasks import Load, Task, deal, number_of_tasks

Offset = dict[str, Any]

PIECES_PER_TASK = 8  # a task's share of a micro-batch is made of about so many


class Planner:
    """
    Parameters
    ----------
    rows
        Rows of a micro-batch, about: larger costs less per row, takes more memory and answers later.
    cores
        Tasks that run at the same time.
    """

    def __init__(self, sources: Mapping[str, Parts], rows: int, cores: int, clock: Clock | None = None) -> None:
        self.sources, self.rows, self.cores = sources, max(1, rows), max(1, cores)
        self.clock = clock or SystemClock()
        self._frozen = False
        self._served: set[str] = set()  # endless sources that gave a micro-batch since everything was frozen

    def first(self) -> Offset:
        return self._offset({n: s.first() for n, s in self.sources.items()}, 0)

    def freeze(self) -> None:
        """Only what is there now is to be read; of a generator without an end that is one micro-batch."""
        self._frozen = True
        for source in self.sources.values():
            source.freeze()

    def latest(self, start: Offset, rows: int | None) -> Offset:
        """Where the next micro-batch ends; ``start`` itself if there is nothing to read. None: no limit."""
        places = self._places(start)
        for name, source in self.sources.items():
            source.look(places[name])
            source.forget(places[name])
        goes = [n for n, p in places.items() if not p.ended and n not in self._served]
        shares = self._shares({n: places[n] for n in goes}, rows)
        ends = places | {n: self.sources[n].advance(places[n], share) for n, share in shares.items()}
        if self._frozen:
            self._served |= {n for n in goes if self.sources[n].endless and ends[n] != places[n]}
        if ends == places:
            return start
        return self._offset(ends, max(self.clock.now(), int(start["stamp"])))

    def _shares(self, places: Mapping[str, Place], rows: int | None) -> dict[str, float]:
        if rows is None:
            return {n: self.rows if self.sources[n].endless else math.inf for n in places}
        if len(places) == 1:
            return dict.fromkeys(places, float(rows))
        outlooks = {n: self.sources[n].outlook(p, rows) for n, p in places.items()}
        found = by_time([o for o in outlooks.values() if o.rows], rows)
        some = [n for n, o in outlooks.items() if o.rows]
        if found is None:
            found = by_part([self.sources[n].remaining(places[n]) for n in some], rows)
        shares = dict.fromkeys(places, 0.0) | {n: math.floor(x + 0.5) for n, x in zip(some, found, strict=True)}
        if some and not any(shares.values()):
            shares[min(some, key=lambda n: outlooks[n].rows)] = 1.0
        return shares

    def tasks(self, start: Offset, end: Offset, most_rows: float = math.inf) -> list[Task]:
        """The tasks between two offsets, each with what it reads."""
        before, after = self._places(start), self._places(end)
        moved = [n for n in self.sources if before[n] != after[n]]
        if not moved:
            return []
        for n in moved:
            self.sources[n].known(after[n])
        spans = {n: self.sources[n].pieces(before[n], after[n], math.inf) for n in moved}
        number = number_of_tasks(spans, self.cores, most_rows)
        if number > 1:
            rows = sum(p.rows for ps in spans.values() for p in ps)
            size = max(1.0, rows / number / PIECES_PER_TASK)
            spans = {n: self.sources[n].pieces(before[n], after[n], size) for n in moved}
        dealt = deal(spans, number) or [{}]
        last = {n: max((i for i, runs in enumerate(dealt) if n in runs), default=0) for n in moved}
        tasks = []
        for i, runs in enumerate(dealt):
            loads = [
                Load(n, tuple(self.sources[n].slice(p) for p in runs.get(n, ())), after[n].ended and last[n] == i)
                for n in moved
            ]
            tasks.append(Task(tuple(x for x in loads if x.slices or x.ended), int(end["stamp"])))
        return [t for t in tasks if t.loads]

    def _places(self, offset: Offset) -> dict[str, Place]:
        known = offset["sources"]
        if set(known) != set(self.sources):
            raise EddylineError(
                f"the checkpoint was made by a job that reads {', '.join(sorted(known))}, and this one reads"
                f" {', '.join(sorted(self.sources))}: restore the job as it was, or start from an empty checkpoint"
                " directory."
            )
        return {n: Place.of(known[n]) for n in self.sources}

    def _offset(self, places: Mapping[str, Place], stamp: int) -> Offset:
        return {"stamp": stamp, "sources": {n: p.plain() for n, p in places.items()}}
