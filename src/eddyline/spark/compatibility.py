"""Whether a query can go on from a checkpoint: the facts that its state depends on, then and now, compared one by one.

State is what the operators of one plan have kept of certain columns, divided over certain shards. Another plan, other
columns or another division cannot take it over, and a start that ignored it would give answers of neither query. What
is *not* a fact here may change between two starts: the sink, the master, cores and executors, slack and idle intervals
(from then on), what names metrics have, rates (as long as they lead to the same shares), spelling and layout of the
query's text. The number of state partitions is Spark's own fact: it is fixed in the checkpoint, and another value of
``spark.sql.shuffle.partitions`` is not looked at.

Facts are plain data, written into the state store once, when a shard is first saved.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from eddyline.cql.printing import format_plan
from eddyline.expr.types import type_name
from eddyline.plan.choice import BACK, exchanged
from eddyline.synopses.codes import hash_codes

if TYPE_CHECKING:
    from eddyline.spark.program import Group, Program

FORMAT: Final = 6  # of the state in Spark's state store; a change is noted in CHANGELOG.md
SHOWN_CHARACTERS: Final = 200  # of a query's text in a message, at most
WORDS_AROUND: Final = 2  # shown before and after the change in a query's text

Facts = Mapping[str, Any]


# ── gathering ─────────────────────────────────────────────────────────────────────────────────────────────────────


def facts(program: Program) -> dict[str, Any]:
    """What the state of a program depends on, as plain data."""
    return {"format": FORMAT, "groups": [_group(g) for g in program.groups]}


def _group(g: Group) -> dict[str, Any]:
    return {
        "queries": [
            {
                "text": " ".join(p.query.text.split()),
                "plan": format_plan(p.plan),
                "columns": {f.name: type_name(f.type) for f in p.plan.schema},
                "operators": p.choices.facts(),
            }
            for p in g.planned
        ],
        "shares": list(g.shares),
        "lanes": [
            {
                "name": lane.name,
                "source": lane.source,
                "split": list(lane.split),
                "columns": {f.name: type_name(f.type) for f in g.schema(lane)},
                "timestamp": g.timestamp(lane),
            }
            for lane in g.lanes
        ],
        "relations": [
            {"source": lane.source, "split": list(lane.split), "rows": digest(g.tables[lane.source])}
            for lane in g.constants
        ],
    }


def digest(table: bytes) -> str:
    """Of the rows of a constant relation (an Arrow stream) as a bag: their order and chunks do not count.

    >>> def stream(rows):
    ...     sink = pa.BufferOutputStream()
    ...     with pa.ipc.new_stream(sink, rows.schema) as writer:
    ...         writer.write_table(rows)
    ...     return sink.getvalue().to_pybytes()
    >>> one = pa.table({"x": [1, None, 3], "y": ["p", "q", None]})
    >>> two = pa.concat_tables([one.slice(2), one.slice(0, 2)])
    >>> digest(stream(one)) == digest(stream(two)), digest(stream(one)) == digest(stream(one.slice(1)))
    (True, False)
    """
    with pa.ipc.open_stream(table) as reader:
        rows = reader.read_all().combine_chunks()
    codes: list[Any] = [np.zeros(rows.num_rows, np.int64)]
    for column in rows.columns:
        array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        try:
            values, nulls = hash_codes(array)
        except pa.ArrowNotImplementedError:  # a nested type
            values, nulls = np.array([_number(str(v)) for v in array.to_pylist()], np.int64), None
        codes += [values, np.zeros(len(values), np.int64)] if nulls is None else [np.where(nulls, 0, values), nulls]
    matrix = np.stack([np.asarray(c, np.int64) for c in codes])
    ordered = np.ascontiguousarray(matrix[:, np.lexsort(matrix)])
    return hashlib.sha256(str(rows.schema.names).encode() + ordered.tobytes()).hexdigest()[:16]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def pack(found: Facts) -> bytes:
    return zlib.compress(json.dumps(found).encode())


def unpack(data: bytes) -> dict[str, Any]:
    return dict(json.loads(zlib.decompress(data)))


def fingerprint(found: Facts) -> str:
    """Equal if and only if state can be taken over. Texts may differ where plans do not."""
    groups = [{**g, "queries": [{**q, "text": ""} for q in g["queries"]]} for g in found["groups"]]
    return hashlib.sha256(json.dumps({**found, "groups": groups}).encode()).hexdigest()[:16]


# ── comparing ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Change:
    """``what`` differs; ``back`` is how to undo it, where that is not plain. ``answers``: whether they change too."""

    what: str
    back: str = ""
    answers: bool = True

    def __str__(self) -> str:
        return f"{self.what}; {self.back}" if self.back else self.what


def wrong_format(found: object) -> str:
    return (
        f"the state in this checkpoint has format {found}, and this version of Eddyline reads format {FORMAT}: nothing"
        " of it can be kept here. Continue with the version that wrote it, or start with an empty checkpoint directory"
        " and an empty output: a replay of the sources from their start gives the same answers."
    )


def changes(then: Facts, now: Facts) -> list[Change]:
    """Everything in which two programs differ as far as state depends on it."""
    before, after = then["groups"], now["groups"]
    if len(before) != len(after):
        listed = _listed([_texts(g) for g in before], [_texts(g) for g in after])
        return [Change(f"it now has {_count(len(after), 'query', 'queries')} instead of {len(before)}: {listed}")]
    return [c for old, new in zip(before, after, strict=True) for c in _group_changes(old, new)]


def _group_changes(then: Facts, now: Facts) -> Iterator[Change]:
    yield from _query_changes(then, now)
    if then["shares"] != now["shares"]:
        yield _shares(then["shares"], now["shares"])
    old, new = ({lane["name"]: lane for lane in g["lanes"]} for g in (then, now))
    for name in [*old, *(n for n in new if n not in old)]:
        yield from _lane_changes(name, old.get(name), new.get(name), then["shares"] == now["shares"])
    rows, fresh = ({r["source"]: r["rows"] for r in g["relations"]} for g in (then, now))
    for name in rows.keys() & fresh.keys():
        if rows[name] != fresh[name]:
            yield Change(
                f"the constant relation {name} has other rows than when the checkpoint was begun",
                "put the old rows back (a relation that changes is declared with TIMESTAMP BY)",
            )


def _query_changes(then: Facts, now: Facts) -> Iterator[Change]:
    if len(then["queries"]) != len(now["queries"]):
        yield Change(f"other queries read its late or invalid rows: {_listed([_texts(then)], [_texts(now)])}")
        return
    for old, new in zip(then["queries"], now["queries"], strict=True):
        if old["plan"] != new["plan"]:
            if old["text"] != new["text"]:
                yield Change(f"the query is another one: {_words(old['text'], new['text'])}")
            else:
                yield Change(
                    f"the query has the same text and another plan: {_steps(old['plan'], new['plan'])}",
                    "use the streams' columns, the options or the version of Eddyline that it had",
                    answers=old["columns"] != new["columns"],
                )
        elif old["columns"] != new["columns"]:
            yield Change(f"the answer has other columns: {_columns(old['columns'], new['columns'])}")
        else:
            yield from _operator_changes(old.get("operators", []), new["operators"])


def _operator_changes(then: list[Facts], now: list[Facts]) -> Iterator[Change]:
    """One operator cannot take over what another has kept, though both give the same answers."""
    for what in exchanged(then, now):
        yield Change(what, BACK, answers=False)


def _lane_changes(name: str, then: Facts | None, now: Facts | None, same_shares: bool) -> Iterator[Change]:
    if then is None or now is None:
        # Where the grid is another one, rows travel in other ways too: that was said already.
        if same_shares:
            yield Change(f"the stream {name} is {'new' if then is None else 'no longer read'}")
        return
    if then["columns"] != now["columns"]:
        yield Change(
            f"of the stream {then['source']} other columns are read: {_columns(then['columns'], now['columns'])}",
            "cast or rename them in the DataFrame to what they were",
        )
    if then["timestamp"] != now["timestamp"]:
        yield Change(f"the time of {then['source']} was {then['timestamp']} and is now {now['timestamp']}")
    if then["split"] != now["split"] and same_shares:
        yield Change(
            f"the rows of {then['source']} went to shards by {_by(then['split'])} and would now go by"
            f" {_by(now['split'])}",
            "pass the rates that it had",
            answers=False,
        )


def _shares(then: list[int], now: list[int]) -> Change:
    before, after = _product(then), _product(now)
    if before == after:
        grid = " × ".join(map(str, then)), " × ".join(map(str, now))
        return Change(
            f"the {before} shards were a grid of {grid[0]} and are now one of {grid[1]}",
            "pass the rates that it had",
            answers=False,
        )
    return Change(
        f"it had {_count(before, 'shard')} and now has {after}",
        f"pass shards={before} (--shards {before})",
        answers=False,
    )


def explain(then: Facts, now: Facts) -> str:
    """In words: what changed, what can be kept and how, what cannot."""
    found = changes(then, now)
    if not found:  # facts of another make: say the little that is certain
        found = [Change("it was begun by another program")]
    replay = "the answers of the query as it is now" if any(c.answers for c in found) else "the same answers"
    return "\n".join(
        [
            "the state in this checkpoint cannot be taken over, because what made it has changed:",
            *(f"- {c}." for c in found),
            "To keep everything, undo this and start again: it continues where it stopped. Otherwise nothing of the"
            " state can be kept: start with an empty checkpoint directory and an empty output; where the sources can"
            f" be read again, a replay from their start gives {replay}.",
            "The sink, the master, cores and executors, slack, idle intervals and names of metrics may change freely;"
            " the number of Spark's state partitions stays what it was in the checkpoint.",
        ]
    )


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _texts(group: Facts) -> str:
    return "; ".join(q["text"] for q in group["queries"])


def _listed(then: list[str], now: list[str]) -> str:
    gone, new = [t for t in then if t not in now], [t for t in now if t not in then]
    parts = [f"new is {_short(t)}" for t in new] + [f"gone is {_short(t)}" for t in gone]
    return ", ".join(parts) or "the same one more than once"


def _short(text: str) -> str:
    return f"‹{text}›" if len(text) <= SHOWN_CHARACTERS else f"‹{text[:SHOWN_CHARACTERS]}…›"


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _product(shares: list[int]) -> int:
    n = 1
    for s in shares:
        n *= s
    return n


def _by(split: list[str | None]) -> str:
    return " and ".join(c or "every coordinate" for c in split) or "one shard"


def _columns(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """
    >>> _columns({"a": "INT", "b": "INT"}, {"a": "BIGINT", "c": "INT"})
    'a was INT and is BIGINT, b is gone, c is new'
    """
    parts = [f"{n} was {t} and is {now[n]}" for n, t in then.items() if n in now and now[n] != t]
    parts += [f"{n} is gone" for n in then if n not in now] + [f"{n} is new" for n in now if n not in then]
    return ", ".join(parts) or "their order"


def _words(then: str, now: str) -> str:
    """The part of a text that changed, with a few words around it.

    >>> _words("SELECT a, b FROM S [RANGE 60] WHERE a > 5", "SELECT a, b FROM S [RANGE 30] WHERE a > 5")
    '‹… S [RANGE 60] WHERE a …› became ‹… S [RANGE 30] WHERE a …›'
    """
    old, new = then.split(), now.split()
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    first, shown = max(0, head - WORDS_AROUND), []
    for words in (old, new):
        last = min(len(words), len(words) - tail + WORDS_AROUND)
        part = " ".join(words[first:last])
        shown.append(_short(f"{'… ' if first else ''}{part}{' …' if last < len(words) else ''}"))
    return " became ".join(shown)


def _shared(a: list[str], b: list[str]) -> int:
    """The number of words at the start that are the same."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _steps(then: str, now: str) -> str:
    """The steps of two plans that differ.

    >>> _steps("istream\\n└─ window [RANGE 60]\\n   └─ stream S", "istream\\n└─ window [RANGE 30]\\n   └─ stream S")
    '‹window [RANGE 60]› became ‹window [RANGE 30]›'
    """
    old, new = ([line.lstrip(" │├└─") for line in plan.splitlines()] for plan in (then, now))
    parts = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            was, is_now = (", ".join(map(_short, part)) or "nothing" for part in (old[a:b], new[c:d]))
            parts.append(f"{was} became {is_now}")
    return ", ".join(parts) or "its steps are put together differently"
