"""One session behind many clients: what is declared and runs, and the commands that change it.

Every change (rows, declarations, steering) is a command that one thread runs between two batches (``commands``). A
commit writes a snapshot of the session and, in one transaction, all that belongs to it (``store``); then results become
visible, and the clients that wait for the commands get their answers.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.core.errors import EddylineError, JobError, did_you_mean
from eddyline.engine.alter_stream import width_text
from eddyline.engine.feeds import Feed
from eddyline.engine.snapshot import DamagedSnapshot, Snapshots
from eddyline.io import durable
from eddyline.io.locking import DirectoryLock
from eddyline.plan.plan_data import PlanGraph
from eddyline.server.commands import TICK_SECONDS, CommandThread, Refused
from eddyline.server.declarations import Declaration, checked, declare, reads, register_functions
from eddyline.server.journal import Journal, Signal
from eddyline.server.settings import Settings
from eddyline.server.store import Entry, Store, forget_uncommitted
from eddyline.session import Session
from eddyline.streamon.decision import Decision

LOOK_SECONDS = 0.25  # between two looks at sources that had nothing new


class Missing(JobError):
    """There is nothing of that name."""


@dataclass(slots=True)
class Running:
    """A query of the catalog: what runs (None once it failed), and its results."""

    entry: Entry
    query: Any  # a ``Query``, on Spark a ``SparkQuery``
    journal: Journal

    @property
    def name(self) -> str:
        return self.entry.name


class Service(CommandThread):
    """Started, it goes on where the last one in the same directory was stopped, however that was."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        try:
            durable.make_folder(settings.state)
        except OSError as error:
            reason = error.strerror or error
            raise JobError(f"--state {str(settings.state)!r} cannot be made a folder: {reason}.") from error
        self._lock = DirectoryLock(settings.state, "the server's directory")
        self._lock.__enter__()
        try:
            self.store = Store(settings.state / "catalog.sqlite")
            self.snapshots = settings.state / "session"
            self.entries: dict[str, Entry] = {}
            self.queries: dict[str, Running] = {}
            self.committed_rows = self.pushed_rows = 0
            self.started = time.time()
            self.changed = Signal()  # something was declared, dropped or decided by the user
            self.session: Any = self._new_session()
            self._restore()
        except sqlite3.Error as error:
            self._lock.close()
            raise self._damaged(
                f"the catalog {str(settings.state / 'catalog.sqlite')!r} is damaged: {error}"
            ) from error
        except BaseException:
            self._lock.close()
            raise
        super().__init__(self.store, settings.commit_seconds)
        self._dropped: list[Journal] = []  # of queries that are gone with the next commit
        self._last_look = 0.0

    def _new_session(self) -> Any:
        if self.store.get("runtime") == "spark":
            raise JobError(f"the state in {self.settings.state} is of a server on Spark: add --runtime spark.")
        session = Session(base=self.base)
        session.warns = False  # the numbers of rows that were left out are part of every report
        return session

    @property
    def base(self) -> Path | None:
        """The folder from which relative paths are read."""
        return self.settings.folders[0] if self.settings.folders else None

    def _declare(self, entry: Entry, *, running: bool = True) -> Any:
        """Make a declaration part of the session; the query that it is, if it is one."""
        return declare(self.session, declaration_of(entry), running=running)

    def _restore(self) -> None:
        register_functions(self.session, self.settings.modules)
        for entry in self.store.entries():
            found = self._declare_again(entry)
            self.entries[entry.name.lower()] = entry
            if entry.kind == "query":
                schema = found.schema if found is not None else None
                running = Running(entry, found, self._journal(entry, schema))
                running.journal.message = entry.message
                self.queries[entry.name.lower()] = running
        self._restore_state()
        self._publish()

    def _declare_again(self, entry: Entry) -> Any:
        """What was declared before the restart may need what is not there any more."""
        try:
            return self._declare(entry, running=entry.status == "running")
        except EddylineError as error:
            raise EddylineError(
                f"the {entry.kind} {entry.name!r} of {str(self.settings.state)!r} cannot be taken up again: {error}\n"
                "  Nothing was changed there: put back what is missing, such as a file of --data or a module of"
                " --functions, and start again."
            ) from error

    def _publish(self) -> None:
        """What is committed may be seen: the results of each query, and whether more can come."""
        for running in self.queries.values():
            if running.query is None:
                running.journal.publish("failed", running.journal.message)
            else:
                running.journal.publish("ended" if self._has_ended(running) else "running")

    def _restore_state(self) -> None:
        forget_uncommitted(self.snapshots, self.store.snapshot)
        if not self.store.snapshot:
            return
        newest = Snapshots(self.snapshots).newest()
        if newest != self.store.snapshot:
            # An older one would go on from another moment than the results and what producers were promised.
            found = f"the newest in {str(self.snapshots)!r} is {newest}" if newest else "there is none"
            raise self._damaged(f"the catalog was committed with snapshot {self.store.snapshot}, and {found}")
        try:
            self.session.restore(self.snapshots)
        except DamagedSnapshot as error:
            raise self._damaged(error.damage) from error

    def _damaged(self, damage: str) -> EddylineError:
        """Catalog and snapshots are of one moment, so that nothing less than the whole directory can be put back."""
        return EddylineError(
            f"{damage}; put back a copy of the whole directory {str(self.settings.state)!r}, or begin with an empty one"
            " (--state)."
        )

    def _journal(self, entry: Entry, schema: Any) -> Journal:
        limits = self.settings.limits
        return Journal(self.store, entry.id, schema, (limits.retained_rows, limits.retained_bytes))

    def stop(self) -> None:
        """Commit and end. What was pushed and answered is on the disk."""
        super().stop()
        self.store.close()
        self._lock.close()

    # ── the engine's thread ───────────────────────────────────────────────────────────────────────────────────────

    def _readable(self, now: float) -> bool:
        waiting = any(not f.done and f.stream.is_read for f in self.session.feeds.values())
        return waiting and now >= self._last_look

    def _read_sources(self) -> None:
        if self.broken or not self._readable(time.monotonic()):
            return
        before = sum(s.arrived for s in self.session.inputs.values())
        reading = self._next_feed()
        try:
            self._guarded(self.session.step)
        except Exception as error:  # a file that has gone, or cannot be read
            self._fail_readers(reading, error)
        if sum(s.arrived for s in self.session.inputs.values()) == before:
            self._last_look = time.monotonic() + LOOK_SECONDS
        self._dirty = True

    def _next_feed(self) -> Feed:
        """The source that the session reads next: the one that is furthest behind."""
        waiting = [f for f in self.session.feeds.values() if not f.done and f.stream.is_read]
        found: Feed = min([f for f in waiting if not f.stream.full] or waiting, key=lambda f: f.stream.shown_bound)
        return found

    def _fail_readers(self, feed: Feed, error: Exception) -> None:
        """A source cannot be read: the queries that read it stop, and the others go on."""
        for running in list(self.queries.values()):
            query = running.query
            if query is not None and any(s is feed.stream for s in query.running.inputs.values()):
                self._fail(running, f"the source of {feed.stream.name!r} cannot be read: {error}")

    def _tick(self) -> None:
        now = time.monotonic()
        if self.broken or now - self._last_tick < TICK_SECONDS:
            return
        self._last_tick = now
        if self.session.queries:
            self._guarded(self.session.tick)
            self._dirty = self._dirty or any(q.running.results for q in self.session.queries)

    def _guarded(self, work: Callable[[], Any]) -> None:
        """Do what may stop queries: their errors are theirs, and the others go on."""
        try:
            work()
        except Exception:
            if not any(q.running.error is not None for q in self.session.queries):
                raise
        self._settle_failures()

    def _settle_failures(self) -> None:
        for running in list(self.queries.values()):
            if running.query is not None and running.query.running.error is not None:
                self._fail(running, str(running.query.running.error))

    def _fail(self, running: Running, message: str) -> None:
        """A query was stopped by an error: its results so far stay, and so does its name for those that read it."""
        assert running.query is not None
        running.journal.stage(running.query.fetch())
        self.session.drop(running.query)
        running.query = None
        self.store.fail(running.entry.id, message)
        running.journal.message = message
        self.session.view(running.name, str(running.entry.body["text"]))
        self._dirty = True
        for other in list(self.queries.values()):
            aside = {which for name, which in reads(declaration_of(other.entry)) if name == running.name.lower()}
            if other.query is not None and aside - {None}:
                self._fail(other, f"it reads what {running.name} put aside, and {running.name} was stopped by an error")

    def _commit(self) -> None:
        began = time.monotonic()
        before = sum(r.journal.last for r in self.queries.values())
        self.store.commit(self._save())
        self._publish()
        while self._dropped:
            self._dropped.pop().publish("dropped")
        self.committed_rows += sum(r.journal.last for r in self.queries.values()) - before
        self._answer(began)

    def _save(self) -> int | None:
        """Put aside results and state: the number of the snapshot that belongs to the next commit."""
        for running in self.queries.values():
            if running.query is not None:
                running.journal.stage(running.query.fetch())
        forget_uncommitted(self.snapshots, self.store.snapshot)
        number: int = self.session.snapshot(self.snapshots)
        return number

    def _has_ended(self, running: Running) -> bool:
        return bool(running.query.running.finished)

    # ── commands, run in the engine's thread ──────────────────────────────────────────────────────────────────────

    def create(self, declaration: Declaration) -> Entry:
        """Declare something, or register a query; a query without a name gets one."""
        limits = self.settings.limits
        if len(self.entries) >= limits.declarations:
            raise Refused(f"the server keeps at most {limits.declarations} declarations (--max-declarations).")
        if declaration.kind == "query":
            if sum(r.query is not None for r in self.queries.values()) >= limits.queries:
                raise Refused(f"the server runs at most {limits.queries} queries (--max-queries): drop one first.")
            if not declaration.name:
                declaration = Declaration("query", self._free_name(), declaration.body)
        checked(declaration, self.settings.folders)
        entry = self.store.add(declaration.kind, declaration.name, declaration.body)  # undone where declaring fails
        found = self._declare(entry)
        self.entries[entry.name.lower()] = entry
        if found is not None:
            self.queries[entry.name.lower()] = Running(entry, found, self._journal(entry, found.schema))
        self._begin(entry)
        self.changed.notify()
        return entry

    def _begin(self, entry: Entry) -> None:
        """Something was declared: constant relations alone are answered at once."""
        self._guarded(self.session.advance)

    def _free_name(self) -> str:
        number = 1
        while f"q{number}" in self.entries:
            number += 1
        return f"q{number}"

    def drop(self, kind: str, name: str) -> None:
        """Forget a declaration; refused while another reads it."""
        entry = self.entry(kind, name)
        key = entry.name.lower()
        readers = [e.name for e in self.entries.values() if any(n == key for n, _ in reads(declaration_of(e)))]
        readers = [r for r in readers if r.lower() != key]
        if readers:
            raise Refused(f"the {kind} {entry.name!r} is read by {readers[0]!r}: drop that first.")
        running = self.queries.pop(key, None)
        if running is not None and running.query is not None:
            self._end(running)
        else:
            self._forget(entry)
        del self.entries[key]
        self.store.remove(entry.id)
        if running is not None:
            self._dropped.append(running.journal)
        self.changed.notify()

    def _end(self, running: Running) -> None:
        """Stop a query that runs."""
        self.session.drop(running.query)

    def _forget(self, entry: Entry) -> None:
        """Take a declaration without readers out of the session."""
        key, session = entry.name.lower(), self.session
        with session.turn:
            for declared in (session.catalog.streams, session.catalog.relations, session.catalog.views):
                declared.pop(key, None)
            session.inputs.pop(key, None)
            session.feeds.pop(key, None)
            session.relations.pop(key, None)

    def push(self, name: str, rows: Any, producer: tuple[str, int] | None = None) -> bool:
        """Bring rows; False: this producer has pushed this number already, and nothing was taken."""
        if producer is not None:
            if producer[1] <= self.store.produced(producer[0]):
                return False
            self.store.produce(*producer)
        self._guarded(lambda: self.session.push(name, rows))
        self.pushed_rows += getattr(rows, "count", 0)
        return True

    def heartbeat(self, name: str, moment: Any) -> None:
        self._guarded(lambda: self.session.heartbeat(name, moment))

    def finish(self, name: str) -> None:
        self._guarded(lambda: self.session.finish(name))

    def alter(self, name: str, options: Mapping[str, Any]) -> list[Decision]:
        return list(self.live(name).alter(**options) or ())

    def pin(self, name: str, pinned: bool) -> list[Decision]:
        query = self.live(name)
        return list((query.pin() if pinned else query.unpin()) or ())

    def undo(self, name: str, number: int, shard: int | None = None) -> list[Decision]:
        if shard is not None:
            raise JobError("this server runs in one process: leave the shard out.")
        return list(self.live(name).undo(number))

    def alter_stream(self, name: str, widths: Mapping[str, Any]) -> list[Decision]:
        return list(self.session.alter_stream(name, **widths) or ())

    # ── what is there ─────────────────────────────────────────────────────────────────────────────────────────────

    def entry(self, kind: str, name: str) -> Entry:
        found = self.entries.get(name.lower())
        if found is None or found.kind != kind:
            known = [e.name for e in list(self.entries.values()) if e.kind == kind]
            raise Missing(f"there is no {kind} {name!r}.{did_you_mean(name, known)}")
        return found

    def query(self, name: str) -> Running:
        found = self.queries.get(name.lower())
        if found is None:  # other threads ask while one is registered or dropped: its entry alone may be there
            self.entry("query", name)
            raise Missing(f"there is no query {name!r} just now: it is being registered or dropped.")
        return found

    def pushable(self, name: str) -> pa.Schema | None:
        """The columns of a stream, or of a relation that changes; None: there is none of that name."""
        found = self.session.inputs.get(name.lower())
        return None if found is None else found.definition.schema.to_arrow()

    def input_state(self, entry: Entry) -> dict[str, Any]:
        """What is known of an input by now."""
        key = entry.name.lower()
        stream = self.session.inputs.get(key)
        if stream is None:
            return {}
        return {"input": stream.report(), "ended": stream.finished, "pushed": key not in self.session.feeds}

    def input_counts(self) -> dict[str, dict[str, Any]]:
        return {s.name: s.report() for s in list(self.session.inputs.values())}

    def steering_of(self, query: Any) -> dict[str, Any]:
        steering = query.steering
        return {"pinned": steering.pinned, "options": dict(steering.options)}

    def inputs_of(self, query: Any) -> dict[str, Any]:
        """What the inputs of a query have counted, and the slack of each as ``ALTER STREAM`` takes it."""
        streams = query.running.inputs.values()
        kinds = {s.name: s.definition.time_kind for s in streams}
        return {
            s.name: {**s.report(), "slack_text": width_text(s.widths["slack"] or 0, kinds[s.name])} for s in streams
        }

    def aside(self, name: str, which: str) -> list[dict[str, Any]]:
        """The rows of a query that are late, invalid or shed; on Spark none is shed."""
        found = getattr(self.live(name), which, None)
        return [] if found is None else list(found())

    def plan_of(self, name: str, *, decisions: bool = True) -> PlanGraph:
        found: PlanGraph = self.live(name).plan(decisions=decisions)
        return found

    def decisions_of(self, name: str, known: Mapping[int | None, int] | None = None) -> list[dict[str, Any]]:
        """The records of the log; those after the last number ``known`` of each shard (None where there are none)."""
        query = self.live(name)
        return [d.to_dict() for d in query.decisions_after((known or {}).get(None, 0))]

    def live(self, name: str) -> Any:
        """The query as it runs."""
        running = self.query(name)
        if running.query is None:
            raise Refused(f"the query {running.name!r} was stopped by an error: {running.journal.message}")
        return running.query


def declaration_of(entry: Entry) -> Declaration:
    return Declaration(entry.kind, entry.name, entry.body)
