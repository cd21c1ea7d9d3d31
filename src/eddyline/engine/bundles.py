"""``eddyline run --bundle``: samples of the plans of a run, in files from which ``eddyline view`` makes pages.

Samples of the plans are taken as the run goes on, in bounded space: when there are too many, every second one is
forgotten, and the next ones are taken half as often. So a run of a second and one of a day are replayed with about as
many steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError, JobError
from eddyline.core.time import Clock, SystemClock
from eddyline.cql.query_names import file_names
from eddyline.engine.query import Query
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.print_html import bundle, sample

KEPT_SAMPLES: Final = 300  # of a query, at least; at twice as many half of them are dropped: more need larger files
FIRST_INTERVAL: Final = 50_000  # microseconds between two samples at the beginning of a run
SUFFIX: Final = ".bundle.json"


@dataclass(slots=True)
class _Recorded:
    path: Path
    look: Callable[[], tuple[PlanGraph, Mapping[str, Any]]]  # the plan now, and further counts
    samples: list[dict[str, Any]] = field(default_factory=list)


class Recorder:
    """Takes samples of the queries of a run, and writes a bundle for each.

    >>> import tempfile
    >>> from eddyline.testing import ManualClock
    >>> plan = PlanGraph("q", "SELECT …", "istream", (), (), "")
    >>> recorder = Recorder(clock := ManualClock())
    >>> recorder.add(Path(tempfile.mkdtemp()) / "q.json", lambda: (plan, {"rows": 7}))
    >>> for _ in range(5): recorder.look(); clock.advance(30_000)
    >>> recorder.write()[0].name, len(recorder.samples(0))
    ('q.json', 4)
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._recorded: list[_Recorded] = []
        self._apart, self._last = FIRST_INTERVAL, -(1 << 62)

    def add(self, path: Path, look: Callable[[], tuple[PlanGraph, Mapping[str, Any]]]) -> None:
        self._recorded.append(_Recorded(path, look))

    def samples(self, number: int) -> Sequence[Mapping[str, Any]]:
        return self._recorded[number].samples

    def look(self, *, last: bool = False) -> None:
        """Take a sample if it is time for one, or if it is the ``last``."""
        now = self._clock.now()
        if not last and now - self._last < self._apart:
            return
        self._last = now
        for one in self._recorded:
            plan, seen = one.look()
            one.samples.append(sample(plan, now / 1e6, seen))
        if self._recorded and len(self._recorded[0].samples) >= 2 * KEPT_SAMPLES:
            self._apart *= 2
            for one in self._recorded:
                one.samples = one.samples[::2]

    def write(self) -> list[Path]:
        """The run is over: write a file for each query."""
        self.look(last=True)
        for one in self._recorded:
            text = json.dumps(bundle(one.look()[0], self._clock.now() / 1e6, one.samples))
            try:
                one.path.parent.mkdir(parents=True, exist_ok=True)
                one.path.write_text(text + "\n", encoding="utf-8")
            except OSError as e:
                raise EddylineError(f"--bundle {one.path} cannot be written: {e.strerror}.") from e
        return [one.path for one in self._recorded]


def bundle_paths(path: Path, names: Sequence[str | None]) -> list[Path]:
    """Where the bundles of the queries of a job go: a .json file for one query, otherwise a folder.

    >>> [str(p) for p in bundle_paths(Path("seen"), ["hot", None])]
    ['seen/hot.bundle.json', 'seen/query_2.bundle.json']
    """
    if path.suffix == ".json":
        if len(names) > 1:
            raise JobError(f"--bundle {path}: the job has {len(names)} queries, each with a bundle: name a folder.")
        return [path]
    if path.suffix:
        raise JobError(f"--bundle {path}: a bundle is a .json file; for several give a folder, without a suffix.")
    return [path / f"{name}{SUFFIX}" for name in file_names(names)]


def seen_inline(query: Query) -> tuple[PlanGraph, dict[str, Any]]:
    """A query in this process, now."""
    running, steering = query.running, query.steering
    inputs = {s.name: s.report() for s in running.inputs.values()}
    steered = {"pinned": steering.pinned, "options": dict(steering.options)}
    return query.plan(), {**steered, "inputs": inputs, "rows": running.produced}
