"""Changes the slack or idle interval of a stream while queries read it.

Invariants. An instant that was closed stays closed: a larger slack only lets later instants wait longer. A smaller one
closes more instants at once, and the rows that waited for them are processed. No row that was accepted is lost, and
none is judged twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.time import TimeKind
from eddyline.cql.windows import IntervalText
from eddyline.engine.declaration_checks import duration
from eddyline.engine.input_manager import InputStream
from eddyline.streamon.decision import USER, Decision

Width = int | float | str | timedelta | IntervalText


def altered(catalog: Catalog, name: str) -> StreamDef:
    """The declared stream of this name, or a sentence."""
    found = catalog.streams.get(name.lower())
    if found is not None:
        return found
    if name.lower() in catalog.relations:
        raise JobError(f"{name!r} is a relation, which has no slack: only streams can be altered.")
    raise JobError(f"there is no stream {name!r}.{catalog.suggest(name)}")


def checked_widths(definition: StreamDef | RelationDef, given: Mapping[str, Width | None]) -> dict[str, int]:
    """The widths that are given in ticks, or a sentence."""
    name, widths = definition.name, {what: w for what, w in given.items() if w is not None}
    if not widths:
        raise JobError(f"nothing of {name!r} is changed: give a slack or an idle interval.")
    if isinstance(definition, RelationDef):
        raise JobError(f"{name!r} is a relation, which has no slack: only streams can be altered.")
    if definition.timestamp is None:
        raise JobError(f"{name!r} is stamped on arrival, so that nothing of it can be late or idle.")
    if "slack" in widths and getattr(definition, "auto", None) is not None:
        raise JobError(f"the slack of {name!r} is found from its rows (SLACK AUTO): declare a fixed one to set it.")
    if isinstance(widths.get("slack"), str) and str(widths["slack"]).lower().startswith("auto"):
        raise JobError(
            f"whether the slack of {name!r} is found from its rows is decided when it is declared (CREATE STREAM …"
            " SLACK AUTO); ALTER STREAM sets a width such as SLACK 5 SECONDS."
        )
    kinds = {"slack": definition.time_kind or TimeKind.TIMESTAMP, "idle": TimeKind.TIMESTAMP}
    return {what: duration(w, kinds[what], what) for what, w in widths.items()}


def change_width(stream: InputStream, what: str, ticks: int | None, because: str) -> Decision | None:
    """Put a slack or an idle interval into force; the decision to enter, or None where nothing changes."""
    before = stream.widths[what]
    if before == ticks:
        return None
    stream.widen_wait(what, ticks)
    kind = stream.definition.time_kind if what == "slack" else TimeKind.TIMESTAMP
    evidence = {"before": before, "after": ticks}
    units = {} if kind is TimeKind.INTEGER else dict.fromkeys(evidence, "µs")
    operator = f"stream {stream.name}"
    return Decision(
        what, width_text(before, kind), width_text(ticks, kind), because, evidence, units, operator=operator, by=USER
    )


def width_text(ticks: int | None, kind: TimeKind | None) -> str | int | None:
    """A width in ticks as a statement takes it: numbers of a timestamp would be seconds.

    >>> width_text(1_500_000, TimeKind.TIMESTAMP), width_text(7, TimeKind.INTEGER)
    ('1.5 seconds', 7)
    """
    return ticks if ticks is None or kind is TimeKind.INTEGER else f"{ticks / 1e6:g} seconds"
