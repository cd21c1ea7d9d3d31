"""Saving a session, and restoring it from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eddyline.core import arguments as check
from eddyline.core.errors import EddylineError, JobError
from eddyline.engine.declaration_checks import folder
from eddyline.engine.learned import NAME as LEARNED
from eddyline.engine.ownership import in_turn
from eddyline.engine.session_steering import Steered
from eddyline.engine.snapshot import Snapshots
from eddyline.io import durable
from eddyline.io.locking import DirectoryLock
from eddyline.plan.choice import BACK


class Saved(Steered):
    """Writes the state of all inputs, queries and operators to a directory and reads it back."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._saved: dict[Path, int] = {}  # by directory the last snapshot that is of this session

    def snapshot(self, directory: str | Path, extra: Mapping[str, Any] | None = None) -> int:
        """Save all state; returns the snapshot's number. What an earlier snapshot holds is not written again.

        ``extra`` is saved with it and returned by ``restore``. Each session needs a directory of its own."""
        place = folder(directory, "snapshot")
        if not isinstance(extra, Mapping | None) or not all(isinstance(k, str) for k in extra or ()):
            raise JobError(
                f"the data saved with a snapshot must be a dictionary with texts as keys, not {check.shown(extra)}."
            )
        try:
            durable.make_folder(place)
        except OSError as e:
            raise EddylineError(f"the directory {str(place)!r} cannot be made: {e.strerror}.") from e
        with DirectoryLock(place, "the directory"):
            return self.save_to(Snapshots(place), extra)

    @in_turn
    def save_learned(self, path: str | Path | None = None) -> None:
        """Save what the queries have learned, for the next run of the same ones: ``ed.Session(learned=…)``. Without a
        path it goes to the file that the session was given."""
        for q in self.queries:
            self.learned.take(q)
        self.learned.save(None if path is None else check.path(path, "save_learned"))

    @in_turn
    def save_to(self, snapshots: Snapshots, extra: Mapping[str, Any] | None = None) -> int:
        """Save all state in a directory that is locked already."""
        for q in self.queries:
            if q.running.error is not None:
                raise EddylineError(f"{q.name} was stopped by an error and cannot be saved; drop it first.")
        place = snapshots.directory.resolve()
        found, mine = snapshots.newest(), self._saved.get(place)
        if mine is not None and found > mine:
            raise EddylineError(
                f"another session has saved snapshot {found} in {str(snapshots.directory)!r} since this one saved"
                f" {mine}; give each session a directory of its own."
            )
        self._saved[place] = number = snapshots.save({"extra": dict(extra or {}), **self.state()})
        for q in self.queries:
            self.learned.take(q)
        if self.learned.known:
            self.learned.save(snapshots.directory / LEARNED, alone=True)
        return number

    def restore(self, directory: str | Path) -> dict[str, Any]:
        """Go on from the newest snapshot. The same streams and queries must have been declared, in the same order."""
        snapshots = Snapshots(folder(directory, "restore"))
        if not snapshots.newest():
            snapshots.load()  # says that there is none, and leaves no lock behind
        with DirectoryLock(snapshots.directory, "the directory", reading=True):
            return self.restore_from(snapshots)

    @in_turn
    def restore_from(self, snapshots: Snapshots) -> dict[str, Any]:
        """Go on from the newest snapshot in a directory that is locked already."""
        tree = snapshots.load()
        texts = [q.running.query.text for q in self.queries]
        saved = [q["text"] for q in tree["queries"]]
        # There may be side streams more: earlier snapshots kept those whose readers were dropped.
        if texts != saved or set(tree["inputs"]) != set(self.inputs) or not set(tree["sides"]) >= set(self.sides):
            raise EddylineError(
                f"the snapshot in {str(snapshots.directory)!r} was made by other streams or queries; declare the same"
                " ones in the same order, or start from an empty directory. It holds:"
                f" {'; '.join(saved) or 'no query'}."
            )
        self._check_operators(tree, snapshots.directory)
        self.load(tree)
        self._saved[snapshots.directory.resolve()] = snapshots.newest()
        return dict(tree["extra"])

    def _check_operators(self, tree: Mapping[str, Any], directory: Path) -> None:
        """Refuse to load the state of one operator into another."""
        for q, saved, place in zip(self.queries, tree["queries"], tree["graph"]["queries"], strict=True):
            for what in self._graph.exchanged(q.running, place, saved["chosen"]):
                raise EddylineError(
                    f"the snapshot in {str(directory)!r} cannot be taken over by {q.name}, because {what}: {BACK}, or"
                    " start from an empty directory."
                )

    def state(self) -> dict[str, Any]:
        """All that ``load`` needs, as a tree that ``state_codec`` can take apart."""
        return {
            "inputs": {n: s.state() for n, s in self.inputs.items()},
            "feeds": {n: f.state() for n, f in self.feeds.items()},
            "sides": {n: {"stream": s.stream.state(), "reached": s.reached} for n, s in self.sides.items()},
            "estimates": [None if q.estimator is None else q.estimator.state() for q in self.queries],
            "system": self.system.state(),
            "queries": [{**q.running.state(), "steering": q.steering.state()} for q in self.queries],
            "graph": self._graph.state([q.running for q in self.queries]),
        }

    def load(self, tree: Mapping[str, Any]) -> None:
        """Go on where a session with the same streams and queries, in the same order, stood."""
        running = [q.running for q in self.queries]
        self._steered = {id(q.running): s["steering"] for q, s in zip(self.queries, tree["queries"], strict=True)}
        self._graph.load(running, tree["graph"], self._input_of)
        for n, state in tree["inputs"].items():
            self.inputs[n].load(state)
        for n, state in tree["feeds"].items():
            self.feeds[n].load(state)
        for n, side in self.sides.items():
            side.stream.load(tree["sides"][n]["stream"])
            side.reached = tree["sides"][n]["reached"]
        self.system.load(tree.get("system", {}))  # a snapshot of an earlier version has none
        for q, state in zip(self.queries, tree["queries"], strict=True):
            q.running.load(state)
        for q, rows in zip(self.queries, tree.get("estimates", ()), strict=False):
            if q.estimator is not None and rows is not None:
                q.estimator.load(rows)
