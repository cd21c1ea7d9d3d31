"""Checks of synopses: what is inserted is found until it is expired, also after a snapshot.

A synopsis is checked through a ``SynopsisAdapter``, which says how rows are put into it, taken out and looked up; a
plain list is the model that it is compared with.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from eddyline.testing.checks.check import Check, named, require, run_all, saved

Row = tuple[int, Any]  # a key, and what belongs to it

STEPS = 60
ORDERS = ("first in, first out", "any")


class SynopsisAdapter(Protocol):
    """How a synopsis is used. ``order`` is in which order rows may be expired: one of ``ORDERS``."""

    order: str

    def insert(self, rows: Sequence[Row]) -> None:
        """Put rows in, after those that are there."""

    def expire(self, rows: Sequence[Row]) -> None:
        """Take rows out that are there."""

    def probe(self, key: int) -> list[Any]:
        """What belongs to the rows with this key, in any order."""

    def __len__(self) -> int:
        """How many rows there are."""

    @property
    def nbytes(self) -> int: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class SynopsisExample:
    """``make`` builds an empty one. ``keys``: from how many keys rows are drawn; with ``distinct`` each key is there
    once at most."""

    name: str
    make: Callable[[], SynopsisAdapter]
    keys: int = 8
    distinct: bool = False


def synopsis_checks(example: SynopsisExample) -> Iterator[Check]:
    """The checks of a synopsis."""
    checks = [
        ("finds what a list finds", partial(_against_a_list, example)),
        ("state and load go on identically", partial(_restored, example)),
        ("empty inserts and probes", partial(_empty, example)),
        ("bytes follow rows", partial(_bytes, example)),
    ]
    yield from named("synopsis", example.name, checks)


def check_synopsis(name: str, make: Callable[[], SynopsisAdapter], *, keys: int = 8, distinct: bool = False) -> int:
    """Check a synopsis; how many checks there were. The first that fails raises."""
    return run_all(synopsis_checks(SynopsisExample(name, make, keys, distinct)))


class _Model:
    """A list beside the synopsis: both get the same rows."""

    def __init__(self, example: SynopsisExample, seed: int) -> None:
        self.example, self.rng, self.synopsis = example, random.Random(seed), example.make()
        self.rows: list[Row] = []
        self.made = 0

    def step(self) -> None:
        rng, keys = self.rng, range(self.example.keys)
        drawn: list[Row] = []
        for _ in range(rng.choice([0, 1, 3, 9, 40])):
            taken = {k for k, _ in (*self.rows, *drawn)} if self.example.distinct else set[int]()
            free = [k for k in keys if k not in taken]
            if free:
                self.made += 1
                drawn.append((rng.choice(free), self.made))
        self.synopsis.insert(drawn)
        self.rows += drawn
        count = rng.randint(0, len(self.rows)) if rng.random() < 0.6 else 0
        gone = self.rows[:count] if self.synopsis.order == ORDERS[0] else rng.sample(self.rows, count)
        self.synopsis.expire(gone)
        left = set(gone)
        self.rows = [r for r in self.rows if r not in left]

    def compare(self, when: str) -> None:
        require(
            len(self.synopsis) == len(self.rows), f"{when} it has {len(self.synopsis)} rows instead of {len(self.rows)}"
        )
        for key in range(self.example.keys + 1):
            want = sorted(value for k, value in self.rows if k == key)
            got = sorted(self.synopsis.probe(key))
            require(got == want, f"{when} a probe of {key} finds {got} instead of {want}")


def _against_a_list(example: SynopsisExample) -> None:
    for seed in range(4):
        model = _Model(example, seed)
        for step in range(STEPS):
            model.step()
            model.compare(f"after {step + 1} steps")
        require(model.made, "no row was drawn")


def _restored(example: SynopsisExample) -> None:
    model = _Model(example, 7)
    for step in range(STEPS):
        model.step()
        if step % 9 == 4:
            state = saved(model.synopsis.state())
            model.synopsis = example.make()
            model.synopsis.load(state)
            model.compare(f"restored after {step + 1} steps")
    model.compare("at the end")


def _empty(example: SynopsisExample) -> None:
    synopsis = example.make()
    synopsis.insert([])
    synopsis.expire([])
    require(len(synopsis) == 0, f"without rows it has {len(synopsis)}")
    require(synopsis.probe(0) == [], "without rows a probe finds something")
    again = example.make()
    again.load(saved(synopsis.state()))
    require(len(again) == 0, f"an empty one has {len(again)} rows after it was restored")


def _bytes(example: SynopsisExample) -> None:
    synopsis = example.make()
    rows = [(key, key) for key in range(example.keys)] * (1 if example.distinct else 200)
    before = synopsis.nbytes
    synopsis.insert([(key, number) for number, (key, _) in enumerate(rows)])
    require(synopsis.nbytes >= before, f"{len(rows)} rows made it smaller: {before} to {synopsis.nbytes} bytes")
    require(synopsis.nbytes > 0, f"{len(rows)} rows take 0 bytes")
