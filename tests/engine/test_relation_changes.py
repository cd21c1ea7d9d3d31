"""Timed relations: their changes, added up, give at every instant what a literal reading of the elements gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.catalog import RelationDef
from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.core.time import NEVER, TimeKind
from eddyline.engine.closing import frontier
from eddyline.engine.relation_changes import TimedRelation
from eddyline.testing.clock import ManualClock

ARROW = pa.schema([("ts", pa.int64()), ("k", pa.float64()), ("v", pa.string()), ("sign", pa.string())])
Row = tuple[Any, ...]
NAN = float("nan")


def relation(key: tuple[str, ...], sign: str | None, **options: Any) -> TimedRelation:
    definition = RelationDef("R", Schema.from_arrow(ARROW), TimeKind.INTEGER, "ts", key, sign)
    return TimedRelation(definition, ManualClock(), **options)


def plain(row: Row) -> Row:
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in row)


def rows_of(delta: Delta) -> list[tuple[int, Row, int]]:
    columns = [delta.columns[n].to_pylist() for n in ARROW.names]
    rows = [plain(r) for r in zip(*columns, strict=True)]
    return list(zip(delta.time.tolist(), rows, delta.weights.tolist(), strict=True))


def literal(rows: list[Row], key: bool, sign: bool, now: int) -> tuple[Counter[Row], int]:
    """What is there at an instant, and how many deletions found nothing."""
    held: list[Row] = []
    invalid = 0
    for row in (plain(r) for r in rows):
        if row[0] > now:
            break
        same = [h for h in held if (h[1] == row[1] if key else h[1:3] == row[1:3])]
        deletes = sign and row[3] == "-"
        if deletes and not same:
            invalid += 1
        if same and (deletes or key):
            held.remove(same[0])
        if not deletes:
            held.append(row)
    return Counter(held), invalid


ELEMENTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([1.0, 2.0, NAN, None]),
        st.sampled_from(["a", "b", None]),
        st.sampled_from("+-"),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(ELEMENTS, st.booleans(), st.booleans(), st.lists(st.integers(1, 6), max_size=20), st.integers(0, 20))
def test_changes_add_up_to_the_relation(
    steps: list[Row], key: bool, sign: bool, sizes: list[int], second_at: int
) -> None:
    rows: list[Row] = []
    now = 0
    for step, *rest in steps:
        now += step
        rows.append((now, *rest))

    def fresh() -> TimedRelation:
        return relation(("k",) if key else (), "sign" if sign else None)

    r = fresh()
    reader = r.reader(name="one")
    seen: list[tuple[int, Row, int]] = []
    late: Any = None
    late_seen: list[tuple[int, Row, int]] = []
    at, turn = 0, 0
    while at < len(rows):
        size = sizes[turn] if turn < len(sizes) else 7
        part = rows[at : at + size]
        r.accept(
            pa.RecordBatch.from_arrays(
                [pa.array(c, t) for c, t in zip(zip(*part, strict=True), ARROW.types, strict=True)], schema=ARROW
            )
        )
        at += size
        turn += 1
        closed = frontier([r])
        assert closed is not None
        if turn % 2:
            seen += rows_of(reader.take(closed))
        if turn == second_at:  # a query that comes later finds the relation as it is
            late = r.reader(name="two")
        if turn % 5 == 4:
            state, again = r.state(), fresh()
            reader = again.reader(name="one")
            late = again.reader(name="two") if late is not None else None
            again.load(state)
            r = again
    r.finish()
    end = frontier([r])
    if end is None:
        assert not rows
        return
    seen += rows_of(reader.take(end))
    if late is not None:
        late_seen = rows_of(late.take(end))
    for changes in (seen, late_seen) if late is not None else (seen,):
        assert [t for t, _, _ in changes] == sorted(t for t, _, _ in changes)
    total: Counter[Row] = Counter()
    by_time = iter(seen)
    pending = next(by_time, None)
    for instant in range(end + 1):
        while pending is not None and pending[0] == instant:
            total[pending[1]] += pending[2]
            assert total[pending[1]] >= 0  # a deletion never precedes its insertion
            pending = next(by_time, None)
        assert +total == literal(rows, key, sign, instant)[0]
    assert r.invalid.count == literal(rows, key, sign, NEVER)[1]
    if late is not None:
        final: Counter[Row] = Counter()
        for _, row, weight in late_seen:
            final[row] += weight
        assert +final == literal(rows, key, sign, end)[0]
        assert all(n >= 0 for n in final.values())


def batch(*rows: Row) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), ARROW.types, strict=True)], schema=ARROW
    )


def test_a_deletion_carries_the_row_as_it_was_inserted() -> None:
    r = relation((), "sign")
    reader = r.reader()
    r.accept(batch((1, 1.0, "a", "+"), (2, 1.0, "a", "+"), (5, 1.0, "a", "-")))
    r.finish()
    assert rows_of(reader.take(5)) == [
        (1, (1, 1.0, "a", "+"), 1),
        (2, (2, 1.0, "a", "+"), 1),
        (5, (1, 1.0, "a", "+"), -1),
    ]


def test_a_deletion_of_nothing_and_an_unreadable_sign_are_invalid() -> None:
    r = relation((), "sign")
    reader = r.reader()
    r.accept(batch((1, 1.0, "a", "-"), (2, 1.0, "a", "?"), (3, 1.0, "a", None)))
    r.finish()
    assert len(reader.take(3)) == 0
    assert [row["_reason"].split()[0] for row in r.invalid.to_pylist()] == ["deletes", "the", "the"]
    strict = relation((), "sign", strict=True)
    strict.reader()
    strict.accept(batch((1, 1.0, "a", "-"), (2, 1.0, "a", "+")))
    with pytest.raises(DataError, match="not there"):
        strict.release(1)


def test_many_replacements_keep_a_small_store() -> None:
    r = relation(("k",), None)
    reader = r.reader()
    for t in range(60):
        r.accept(batch(*((t, float(i), str(t), None) for i in range(100))))
        reader.take(t - 1)
    r.finish()
    reader.take(60)
    assert len(r.changes) == 100
    assert r.changes._store.size < 100 + 2 * 1024
    assert len(r.changes._store.parts) < 12
