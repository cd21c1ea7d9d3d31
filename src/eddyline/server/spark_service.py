"""The server's session on Spark: every query is a streaming query of Spark, with a checkpoint of its own.

Rows that are pushed become files. A push writes one file, hidden; the commit that answers it makes it part of the
catalog; then it appears, once in the folder of each query that reads the stream and was registered before, where Spark
finds it. A kill in between leaves a file that is either of a committed push and appears after the restart, or of none
and is removed.

Results of a micro-batch and its number are one transaction of the catalog. Spark runs a micro-batch again that it has
not noted as done; its results are those of the first time, and what the catalog has already is not taken twice. So
followers have each row exactly once, as inline, for queries whose answer follows from their rows.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.errors import JobError
from eddyline.engine.query import Query
from eddyline.io import durable
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.traverse import streams_of
from eddyline.server.commands import Refused
from eddyline.server.declarations import Declaration, declare, reads, register_functions
from eddyline.server.service import Running, Service, declaration_of
from eddyline.server.settings import Settings
from eddyline.server.store import Entry
from eddyline.spark.collect import settings as spark_settings
from eddyline.spark.failures import sentence
from eddyline.spark.job_run import in_order_of_time
from eddyline.spark.local import local_session
from eddyline.spark.output_columns import TAG
from eddyline.spark.session import SparkRuntime
from eddyline.spark.spark_query import SparkQuery
from eddyline.spark.types import to_engine
from eddyline.streamon.decision import Decision

TRIGGER: Final = "200 milliseconds"  # between two micro-batches: shorter shows results sooner and polls more often
LOOK_SECONDS: Final = 1.0  # between two looks at whether Spark has stopped a query


class SparkService(Service):
    """``Service`` with queries on Spark. What Spark cannot do is refused in a sentence."""

    def __init__(self, settings: Settings) -> None:
        self._spark: Any = None
        self._streams: dict[int, Any] = {}  # Spark's streaming queries, by entry
        self._appearing: list[Path] = []  # hidden files of pushes that the next commit answers
        self._plans: dict[int, tuple[Any, Any]] = {}
        self._looked = 0.0
        self._ending = False
        super().__init__(settings)
        known = self.store.get("runtime")
        if known != "spark" and (known is not None or self.store.snapshot):
            self._lock.close()
            raise JobError(f"the state in {settings.state} is of a server without Spark: give another --state.")
        self.store.put("runtime", "spark")
        self.store.commit()

    def _new_session(self) -> Any:
        self._spark = local_session(self.settings.master, name="eddyline serve", warm=True)
        known = self.store.get("spark shards")
        if known is not None and self.settings.shards not in (None, int(known)):
            raise JobError(f"--shards {self.settings.shards}: this server was begun with {known}, which stay.")
        session = self._runtime(None if known is None else int(known))
        self.store.put("spark shards", str(session.shards))
        self.store.commit()
        return session

    def _runtime(self, shards: int | None) -> Any:
        session = SparkRuntime(None, base=self.base)
        session.attach(self._spark, shards or self.settings.shards, sized=True)
        return session

    # ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────

    def _declare(self, entry: Entry, *, running: bool = True) -> Any:
        """Streams, relations and views are declared in the session that binds texts. A query gets a session of its own,
        in which streams are the folders of what was pushed since it was registered."""
        if entry.kind != "query":
            self._declare_in(self.session, entry, self._folder(f"streams/{entry.id}"))
            return None
        aside = {which for _, which in reads(declaration_of(entry)) if which is not None}
        if aside:
            raise JobError(
                f"on Spark {sorted(aside)[0]}(…) is no stream of the server: see the rows under"
                f" /v1/queries/…/aside/{sorted(aside)[0]}, or run the server inline."
            )
        text = str(entry.body["text"])
        if not running:
            self.session.view(entry.name, text)
            return None
        own = self._runtime(self.session.shards)
        register_functions(own, self.settings.modules)
        for other in sorted(self.entries.values(), key=lambda e: e.id):
            if other.kind == "query":
                own.view(other.name, str(other.body["text"]))
            else:
                self._declare_in(own, other, self._folder(f"queries/{entry.id}/{other.id}"))
        query = own.query(text, entry.name, **entry.body.get("options", {}))
        if not isinstance(query, SparkQuery):  # it reads the system's streams, on the driver
            return self.session.query(text, entry.name, **entry.body.get("options", {}))
        query.account.on_report = self.session.shards_reported
        self.session.queries.append(query)
        self.session.view(entry.name, text)
        return query

    def _declare_in(self, session: Any, entry: Entry, folder: Path) -> None:
        body = dict(entry.body)
        pushed = "text" not in body and body.get("source") is None
        if entry.kind in ("stream", "relation") and pushed:
            if body.get("timestamp") is None:
                raise JobError(f"on Spark rows that are pushed to {entry.name!r} need a column of time: name it.")
            body |= {"source": str(folder), "options": {**(body.get("options") or {}), "watch": True}}
        declare(session, Declaration(entry.kind, entry.name, body))

    def _folder(self, name: str) -> Path:
        found = self.settings.state / "spark" / name
        durable.make_folder(found)
        return found

    def _restore_state(self) -> None:
        """Pushes that were committed appear; those that were not are removed."""
        for entry in self.entries.values():
            if entry.kind in ("stream", "relation"):
                last = int(self.store.get(f"pushed {entry.id}") or 0)
                for path in self._folder(f"streams/{entry.id}").glob(".*.parquet"):
                    if int(path.name.split(".")[1]) <= last:
                        self._appear(path)
                    else:
                        path.unlink()

    def _begin(self, entry: Entry) -> None:
        running = self.queries.get(entry.name.lower())
        if running is None or not isinstance(running.query, SparkQuery):
            return
        for other in self.entries.values():
            self.store.put(f"since {entry.id} {other.id}", self.store.get(f"pushed {other.id}") or "0")
        shutil.rmtree(self._checkpoint(entry.id), ignore_errors=True)  # of a registration that was not committed
        try:
            self._start_query(running)
        except Exception as error:
            self._end(running)
            del self.queries[entry.name.lower()], self.entries[entry.name.lower()]
            raise JobError(f"Spark cannot run it: {sentence(error) or str(error).splitlines()[0]}") from error

    def _checkpoint(self, entry: int) -> Path:
        return self.settings.state / "spark" / "checkpoints" / str(entry)

    def start(self) -> None:
        super().start()
        for running in list(self.queries.values()):
            if isinstance(running.query, SparkQuery):
                self._start_query(running, again=True)

    def _start_query(self, running: Running, *, again: bool = False) -> None:
        query, number = running.query, running.entry.id
        if again:
            for letter in self._letters(number):
                if "alter" in letter:
                    query._steering.alter(letter["alter"])
                elif "pin" in letter:
                    query._steering.pin(letter["pin"])
        with spark_settings(query):
            writer = query.tagged(guarded=True).writeStream.foreachBatch(partial(self._taken, number, query))
            writer = writer.option("checkpointLocation", str(self._checkpoint(number)))
            self._streams[number] = writer.trigger(processingTime=TRIGGER).start()
        if again:  # a kill may have come between the catalog and Spark: what the shards have already changes nothing
            for letter in self._letters(number):
                query.mailbox.send(letter)

    # ── micro-batches ─────────────────────────────────────────────────────────────────────────────────────────────

    def _taken(self, number: int, query: SparkQuery, df: Any, batch: int) -> None:
        """Called by Spark for each micro-batch, in a thread of its own; returns when the results are committed."""
        if self._ending:
            raise RuntimeError("the server is being stopped")
        table = df.toArrow()
        tags = table.column(TAG)
        rows = table.filter(tags.is_null()).drop_columns([TAG])
        found = [to_engine(b, query.schema) for b in rows.to_batches() if b.num_rows]
        results = in_order_of_time(found, query.schema)
        statistics = tags.drop_null().to_pylist()
        self.submit(lambda: self._take(number, batch, statistics, results)).result()

    def _take(self, number: int, batch: int, statistics: list[str], results: Sequence[pa.RecordBatch]) -> None:
        running = next((r for r in self.queries.values() if r.entry.id == number), None)
        if running is None or running.query is None:
            return
        running.query.account.add(statistics)
        if batch > int(self.store.get(f"batch {number}") or -1):
            self.store.put(f"batch {number}", str(batch))
            running.journal.stage(results)

    def _read_sources(self) -> None:
        """Spark reads them."""

    def _readable(self, now: float) -> bool:
        return False

    def _tick(self) -> None:
        now = time.monotonic()
        if self.broken or now - self._looked < LOOK_SECONDS:
            return
        self._looked = self._last_tick = now
        self.session.shards_reported()
        for running in list(self.queries.values()):
            stream = self._streams.get(running.entry.id)
            if stream is not None and running.query is not None and not self._ending and not stream.isActive:
                error = stream.exception()
                said = "Spark has stopped it" if error is None else sentence(error) or str(error).splitlines()[0]
                self._fail(running, said)
            elif isinstance(running.query, Query) and running.query.running.results:
                self._dirty = True

    def _save(self) -> None:
        """State is Spark's; queries over the system's streams have none that is kept."""
        for running in self.queries.values():
            if isinstance(running.query, Query):
                running.journal.stage(running.query.fetch())

    def _commit(self) -> None:
        super()._commit()
        appearing, self._appearing = self._appearing, []
        for path in appearing:
            self._appear(path)

    def _has_ended(self, running: Running) -> bool:
        return False

    def _fail(self, running: Running, message: str) -> None:
        self._end(running)
        running.query = None
        self.store.fail(running.entry.id, message)
        running.journal.message = message
        self.session.view(running.name, str(running.entry.body["text"]))
        self._dirty = True

    def _end(self, running: Running) -> None:
        stream = self._streams.pop(running.entry.id, None)
        if stream is not None:
            stream.stop()
        self.session.catalog.views.pop(running.name.lower(), None)
        if running.query in self.session.queries:
            self.session.queries.remove(running.query)
        for folder in (self._checkpoint(running.entry.id), self._folder(f"queries/{running.entry.id}")):
            shutil.rmtree(folder, ignore_errors=True)

    def _forget(self, entry: Entry) -> None:
        key = entry.name.lower()
        for declared in (self.session.catalog.streams, self.session.catalog.relations, self.session.catalog.views):
            declared.pop(key, None)
        self.session.opened.pop(key, None)
        shutil.rmtree(self._folder(f"streams/{entry.id}"), ignore_errors=True)

    def stop(self) -> None:
        self._ending = True
        for stream in self._streams.values():
            stream.stop()
        super().stop()
        self._spark.stop()

    # ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────

    def push(self, name: str, rows: Any, producer: tuple[str, int] | None = None) -> bool:
        if rows.invalid:
            raise JobError(
                f"{rows.invalid} of the rows cannot be read, and on Spark a push is taken whole: mend them"
                f" ({rows.reason()})."
            )
        if producer is not None:
            if producer[1] <= self.store.produced(producer[0]):
                return False
            self.store.produce(*producer)
        entry = self.entries[name.lower()]
        table = pa.Table.from_batches([b.rows for b in rows.open()], rows.schema)
        if table.num_rows:
            number = int(self.store.get(f"pushed {entry.id}") or 0) + 1
            self.store.put(f"pushed {entry.id}", str(number))
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink)
            path = self._folder(f"streams/{entry.id}") / f".{number:012d}.parquet"
            durable.write(path, sink.getvalue().to_pybytes())
            durable.sync([path.parent])
            self._appearing.append(path)
        self.pushed_rows += table.num_rows
        return True

    def _appear(self, path: Path) -> None:
        """Show a committed push to every query that reads the stream, and to each once."""
        number, push = int(path.parent.name), int(path.name.split(".")[1])
        name = next((e.name.lower() for e in self.entries.values() if e.id == number), "")
        for running in list(self.queries.values()):
            if not isinstance(running.query, SparkQuery):
                continue
            known = name in {s.lower() for s in streams_of(running.query.bound.plan)}
            if known and push > int(self.store.get(f"since {running.entry.id} {number}") or 0):
                target = self._folder(f"queries/{running.entry.id}/{number}") / path.name.removeprefix(".")
                if not target.exists():
                    os.link(path, target)
        path.unlink()

    def heartbeat(self, name: str, moment: Any) -> None:
        raise Refused("a server on Spark takes no heartbeats: time advances with the rows; run it inline for them.")

    def finish(self, name: str) -> None:
        raise Refused("a server on Spark ends no stream; run it inline, or drop the queries that read it.")

    def alter(self, name: str, options: Mapping[str, Any]) -> list[Decision]:
        self.live(name).alter(**options)
        self._note(name, {"alter": dict(options)})
        return []

    def pin(self, name: str, pinned: bool) -> list[Decision]:
        query = self.live(name)
        query.pin() if pinned else query.unpin()
        self._note(name, {"pin": pinned})
        return []

    def undo(self, name: str, number: int, shard: int | None = None) -> list[Decision]:
        self.live(name).undo(number, shard)
        return []

    def alter_stream(self, name: str, widths: Mapping[str, Any]) -> list[Decision]:
        raise Refused(
            "on Spark the slack of a stream is decided when it is declared; run the server inline to alter it."
        )

    def _note(self, name: str, letter: Mapping[str, Any]) -> None:
        """What was steered is known again after a restart; the shards have it in their state."""
        number = self.query(name).entry.id
        options: dict[str, Any] = {}
        pinned: list[dict[str, Any]] = []
        for one in (*self._letters(number), letter):
            options |= one.get("alter", {})
            pinned = [dict(one)] if "pin" in one else pinned
        self.store.put(f"steered {number}", json.dumps([*([{"alter": options}] if options else []), *pinned]))

    def _letters(self, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.store.get(f"steered {number}") or "[]")
        return found

    # ── what is there ─────────────────────────────────────────────────────────────────────────────────────────────

    def pushable(self, name: str) -> pa.Schema | None:
        entry = self.entries.get(name.lower())
        catalog = self.session.catalog
        definition = catalog.streams.get(name.lower()) or catalog.relations.get(name.lower())
        if entry is None or definition is None or "text" in entry.body or entry.body.get("source") is not None:
            return None
        found: pa.Schema = definition.schema.to_arrow()
        return found

    def input_state(self, entry: Entry) -> dict[str, Any]:
        counts = self.input_counts().get(entry.name, {})
        return {"input": counts, "ended": False, "pushed": self.pushable(entry.name) is not None}

    def input_counts(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for running in list(self.queries.values()):
            query = running.query
            if isinstance(query, SparkQuery):
                for name, counts in self.inputs_of(query).items():
                    if counts["arrived"] >= found.get(name, {"arrived": -1})["arrived"]:
                        found[name] = counts
        return found

    def inputs_of(self, query: Any) -> dict[str, Any]:
        if not isinstance(query, SparkQuery):
            return {}
        left = [one for one in query.account.left_out() if one.arrived or one.late]
        return {one.name: {"arrived": one.arrived, "late": one.late, "invalid": one.invalid} for one in left}

    def steering_of(self, query: Any) -> dict[str, Any]:
        steering = query._steering if isinstance(query, SparkQuery) else query.steering
        return {"pinned": steering.pinned, "options": dict(steering.options)}

    def plan_of(self, name: str, *, decisions: bool = True) -> PlanGraph:
        running = self.query(name)
        query = self.live(name)
        if not isinstance(query, SparkQuery):
            return super().plan_of(name, decisions=decisions)
        state = (query, query.account.batches, len(query.account.shards))
        known = self._plans.get(running.entry.id)
        if known is None or known[0] != state:  # it changes with a micro-batch
            known = self._plans[running.entry.id] = state, query.plan()
        return known[1] if decisions else replace(known[1], decisions=())

    def decisions_of(self, name: str, known: Mapping[int | None, int] | None = None) -> list[dict[str, Any]]:
        if not isinstance(self.live(name), SparkQuery):
            return super().decisions_of(name, known)
        last = known or {}
        return [dict(d) for d in self.plan_of(name).decisions if (d["sequence"] or 0) > last.get(d.get("shard"), 0)]
