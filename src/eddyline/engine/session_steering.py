"""The methods of a session by which a user changes running queries and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eddyline.core.errors import JobError
from eddyline.cql.steering import AlterQuery, AlterStream, PinQuery, Steer, UndoDecision
from eddyline.engine.alter_stream import Width, altered, change_width, checked_widths
from eddyline.engine.ownership import in_turn
from eddyline.engine.session_steps import Stepping
from eddyline.engine.steering import named_query
from eddyline.streamon.decision import Decision


class Steered(Stepping):
    """Carries out ``ALTER``, ``PIN`` and ``UNDO``, and changes of slacks and idle intervals."""

    @in_turn
    def alter_stream(self, name: str, *, slack: Width | None = None, idle: Width | None = None) -> list[Decision]:
        """Change the slack or the idle interval of a stream: ``ALTER STREAM s SET SLACK 5 SECONDS``. What was closed
        stays closed, and what waits keeps waiting or is answered sooner. Every query that reads the stream gets a
        record; the records are returned."""
        return self._alter_stream(name, {"slack": slack, "idle": idle})

    def _alter_stream(self, name: str, given: Mapping[str, Width | None]) -> list[Decision]:
        if name.lower() not in self.catalog.streams and name.lower() not in self.inputs:
            altered(self.catalog, name)
        stream = self._pushed(name)
        widths = checked_widths(stream.definition, given)
        return [d for what, ticks in widths.items() for d in self._set_width(stream.name, what, ticks)]

    def _set_width(self, name: str, what: str, ticks: int | None, because: str = "the user set it") -> list[Decision]:
        stream = self.inputs[name.lower()]
        decision = change_width(stream, what, ticks, because)
        if decision is None:
            return []
        readers = [q.running for q in self.queries if any(s is stream for s in q.running.inputs.values())]
        made = [r.physical.context.log.record(replace(decision, time=r.reached)) for r in readers]
        self._advance()  # a smaller slack closes instants
        return made

    def _steer(self, statement: Steer) -> list[Decision]:
        if isinstance(statement, AlterStream):
            return self._alter_stream(statement.name, statement.widths)
        steering = named_query(self.registered, statement.name).steering
        match statement:
            case AlterQuery():
                return steering.alter(statement.options)
            case PinQuery():
                return steering.pin(statement.pinned)
            case UndoDecision():
                if statement.shard is not None:
                    raise JobError("queries in one process have no shards: leave IN SHARD out.")
                return steering.undo(statement.number)
