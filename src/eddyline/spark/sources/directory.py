"""A watched directory: its parts are the files that were found, in the order in which they were.

A file that came later may have a smaller name, so offsets name the files up to their place; a process that goes on from
one takes the same way, and everything that it does not name is new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eddyline.core.time import Clock, SystemClock
from eddyline.io.directory import DirectorySource
from eddyline.io.source import Source
from eddyline.spark.sources.parts import Part, Parts
from eddyline.spark.sources.places import Place


@dataclass(slots=True)
class WatchedDirectory:
    """The directory, without what a process cannot hand to another."""

    source: DirectorySource
    clock: Clock

    def __getstate__(self) -> tuple[object, ...]:
        s = self.source
        return s.folder.absolute(), s.reader, s.schema, s.pattern, s.poll, s.until_idle

    def __setstate__(self, state: tuple[object, ...]) -> None:
        folder, reader, schema, pattern, poll, until_idle = state
        self.clock = SystemClock()
        self.source = DirectorySource(
            folder, reader, schema, pattern=pattern, poll=poll, until_idle=until_idle  # type: ignore[arg-type]
        )  # fmt: skip


class WatchedParts(Parts):
    """``divide`` makes the part of one file."""

    __slots__ = ("_divide", "_frozen", "_looked", "_quiet_since", "_watch", "order")

    def __init__(self, watch: WatchedDirectory, divide: Callable[[Source], Part]) -> None:
        super().__init__([])
        self._watch, self._divide = watch, divide
        self.order: list[str] = []
        self._looked: int | None = None
        self._quiet_since: int | None = None
        self._frozen = False

    def known(self, place: Place) -> None:
        for name in place.order[len(self.order) :]:
            self._add(name)

    def look(self, place: Place) -> None:
        self.known(place)
        if self._frozen and self._looked is not None:
            return
        now = self._watch.clock.nanoseconds()
        if self._looked is not None and now - self._looked < self._watch.source.poll * 1e9:
            return
        self._looked = now
        new = self._watch.source.look(self.order)
        if new or self._quiet_since is None:
            self._quiet_since = now
        for path in new:
            self._add(path.name)

    def _add(self, name: str) -> None:
        self.order.append(name)
        source = self._watch.source
        self.parts.append(self._divide(source.reader(source.folder / name, source.schema)))

    def freeze(self) -> None:
        self._frozen = True

    def _ended(self, place: Place) -> bool:
        if place.part < len(self.parts) or self._watch.source.until_idle is None:
            return False
        quiet = self._watch.clock.nanoseconds() - (self._quiet_since or 0)
        return self._frozen or quiet >= self._watch.source.until_idle * 1e9

    def settled(self, place: Place) -> Place:
        return replace(place, ended=self._ended(place), order=tuple(self.order[: place.begun]))
