"""Rows that leave memory while a run goes on, and those that the rest of the run may need (exact mode).

The joins are those of ``test_constrained_join_examples``: S1(A, B) → S2(A, C) and S1 → S3(B, D), where D < 8.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.delta import Delta
from eddyline.kernels import constrained_layout as k
from eddyline.operators import constrained_spill
from eddyline.operators.constrained_spill import StagedRows
from eddyline.synopses.constrained_slots import INITIAL_SLOTS
from tests.operators.constrained import Example, Fixed, greater, less
from tests.scale import scaled

STAR, CHAIN = ((0, 1), (0, 2)), ((0, 1), (1, 2))
RUNS = scaled(30, least=4)


def star(spill: bool = True) -> Example:
    made = Example(
        ["AB", "AC", "BD"], [("S1.A", "S2.A"), ("S1.B", "S3.B")], Fixed(STAR), filters={2: less("S3.D", 8)}, spill=spill
    )
    made.feed(2, (6, 20))
    made.feed(3, (5, 3), (10, 12))
    return made


def chain(spill: bool = True) -> Example:
    columns, pairs = ["AB", "BC", "CD"], [("S1.B", "S2.B"), ("S2.C", "S3.C")]
    return Example(columns, pairs, Fixed(CHAIN), filters={2: greater("S3.D", 5)}, spill=spill)


def together(example: Example, rows: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """Feed rows of streams 1, 2, … in one call, each at an instant of its own; returns the sorted results."""
    deltas = []
    for i, schema in enumerate(example.schemas):
        mine = [(n, row) for n, (stream, row) in enumerate(rows) if stream == i + 1]
        values = {f.name: pa.array([r[c] for _, r in mine], pa.int64()) for c, f in enumerate(schema)}
        deltas.append(Delta(np.array([example.now + 1 + n for n, _ in mine], np.int64), values))
        example.rows[i] += [row for _, row in mine]
    example.now += len(rows)
    found = example.join.process(deltas, example.now)
    return sorted(zip(*(found.columns[n].to_pylist() for n in found.columns), strict=True))


def test_rows_that_nothing_will_need_take_no_slot_until_the_end_of_the_run() -> None:
    example = star()
    many = 20 * INITIAL_SLOTS
    found = together(example, [(1, (6, 10 if n % 4 else 5)) for n in range(many)])
    assert found == many // 4 * [(6, 5, 6, 20, 5, 3)]
    assert example.join.slots.capacity == INITIAL_SLOTS and len(example.join.slots) == 3  # those of S2 and S3
    assert example.join.spill is not None and example.join.spill.total == many


@pytest.mark.parametrize("later", [(3, (10, 7)), (2, (6, 21))])
def test_a_row_that_the_rest_of_the_run_needs_stays(later: tuple[int, tuple[int, ...]]) -> None:
    """Keys repeat: a row that its children seem to have made useless has a result after all."""
    example, plain = star(), star(spill=False)
    plain.join.control.rids = {}  # type: ignore[attr-defined]
    rows = [(1, (6, 5)), (1, (6, 10)), later]
    expected = {3: [(6, 5, 6, 20, 5, 3), (6, 10, 6, 20, 10, 7)], 2: [(6, 5, 6, 20, 5, 3), (6, 5, 6, 21, 5, 3)]}
    assert together(example, rows) == expected[later[0]]
    assert together(example, [(1, (6, 10)), (1, (6, 5))])[-1][:2] == (6, 10 if later[0] == 3 else 5)


def nested_loops(example: Example, at: Sequence[tuple[int, int, int, int]], rejected: Callable[[int], bool]) -> Any:
    """The results of all rows so far: ``at`` has left input and column, right input and column."""
    found = [()]
    for rows in example.rows:
        found = [(*some, row) for some in found for row in rows]  # type: ignore[misc]
    keep = [f for f in found if all(f[a][x] == f[b][y] for a, x, b, y in at) and not rejected(f[2][1])]  # type: ignore[misc]
    return sorted(tuple(v for row in f for v in row) for f in keep)


def at_end_only(staged: StagedRows) -> None:
    staged.coming[:] = 255


def without_room(staged: StagedRows) -> None:
    staged.bounds[1] = staged.start + 1


def without_list(staged: StagedRows) -> None:
    staged.coming[:] = 255
    staged.marked = staged.marked[:1]


@pytest.mark.parametrize("shape", ["star", "chain"])
@pytest.mark.parametrize("harm", [None, at_end_only, without_room, without_list])
def test_results_are_those_of_nested_loops(
    shape: str, harm: Callable[[StagedRows], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether rows are staged or wait for the end of the run, and however little room there is."""
    made = StagedRows.__init__

    def limited(self: StagedRows, *args: Any) -> None:
        made(self, *args)
        if harm is not None and len(self.marked) > len(args[2]) + 2:
            harm(self)

    monkeypatch.setattr(StagedRows, "__init__", limited)
    spilled = 0
    for number in range(RUNS):
        draw = random.Random(f"staged/{number}")
        example = star() if shape == "star" else chain()
        example.control.rids = {edge: draw.choice([0, 2, 5]) for edge in (STAR if shape == "star" else CHAIN)}
        found: list[tuple[int, ...]] = []
        for _ in range(draw.randint(3, 8)):
            keys = draw.choice([3, 12])
            rows = [
                (draw.randint(1, 3), (draw.randrange(keys), draw.randrange(keys) if draw.random() < 0.8 else 11))
                for _ in range(draw.randint(1, 25))
            ]
            found += together(example, rows)
        at = [(0, 0, 1, 0), (0, 1, 2, 0)] if shape == "star" else [(0, 1, 1, 0), (1, 1, 2, 0)]
        expected = nested_loops(example, at, (lambda d: d >= 8) if shape == "star" else (lambda d: d <= 5))
        assert sorted(found) == expected, number
        assert example.join.spill is not None
        spilled += example.join.spill.total
    assert spilled > RUNS


def test_counts_of_elements_to_come_end_at_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element is counted once and taken off once, unless so many share a place that it is not followed."""
    kept: list[StagedRows] = []
    made = StagedRows.__init__

    def noted(self: StagedRows, *args: Any) -> None:
        made(self, *args)
        assert self.coming.any()
        kept.append(self)

    example = star()
    monkeypatch.setattr(StagedRows, "__init__", noted)
    monkeypatch.setattr(constrained_spill, "MORE_STAGED", 0)
    together(example, [(1 + n % 3, (n % 50, n % 7)) for n in range(300)])
    assert len(kept) == 1 and not kept[0].coming.any()
    together(example, [(1, (6, 10)) for _ in range(400)])
    assert set(kept[1].coming.tolist()) == {0, 255}
    assert example.join.progress[k.PENDING] == -1
