"""The two cases that adaptive filters are measured by: data that change, and six functions each.

*Expensive*: 300,000 rows, plain Python functions of some 20 to 50 µs a row. *Cheap*: 2 million rows, vectorised
functions of nanoseconds to a microsecond. In both, pairs of filters are correlated, what they let pass ranges from
0.95 down to 0.02, and every 40,000 rows other filters are the good ones.

The drop bits are drawn first (``adaptive.filters.simulate.draw``), and values that a filter drops or lets pass are
then put where the bits say, so that the truth is known without asking any filter. Yardsticks are those of
``adaptive.filters.bounds``.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import cos, exp, pi, sin
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from eddyline.adaptive.filters.simulate import draw
from eddyline.core.predicate import Predicate, predicate

PHASE = 40_000  # rows between changes
PASSING = (0.95, 0.75, 0.5, 0.3, 0.12, 0.02)
PAIRS = (0, 0, 1, 1, 2, 2)  # filters of one number are correlated
# Which filter has which of the rates above, phase by phase: another filter leads in each.
TURNS = ((0, 1, 2, 3, 4, 5), (4, 5, 1, 0, 2, 3), (2, 4, 5, 1, 3, 0), (5, 3, 0, 4, 1, 2), (1, 0, 3, 5, 2, 4))

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FilterCase:
    """``drops[row, filter]`` is the truth; phases begin at 0 and at each of ``changes``."""

    name: str
    table: pa.Table
    drops: Bools
    changes: tuple[int, ...]
    predicates: tuple[Predicate, ...]

    @property
    def text(self) -> str:
        calls = [f"{p.name}({', '.join(p.columns)})" for p in self.predicates]
        return f"SELECT Istream(id) FROM rows WHERE {' AND '.join(calls)}"


def population(rows: int, seed: int = 0) -> tuple[Bools, tuple[int, ...]]:
    """Drop bits, and where they change."""
    changes = tuple(range(PHASE, rows, PHASE))
    parts = []
    for phase, start in enumerate((0, *changes)):
        rates = [1 - PASSING[r] for r in TURNS[phase % len(TURNS)]]
        parts.append(draw(min(PHASE, rows - start), rates, groups=PAIRS, agree=0.9, seed=seed + phase))
    return np.concatenate(parts), changes


def _chosen(dropped: Bools, good: Sequence[Any], bad: Sequence[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """For each row the number of a value in ``[*good, *bad]``."""
    which = rng.integers(0, len(good), len(dropped))
    return np.where(dropped, len(good) + which % len(bad), which)


def _texts(dropped: Bools, good: Sequence[str], bad: Sequence[str], rng: np.random.Generator) -> pa.Array:
    return pa.array([*good, *bad]).take(pa.array(_chosen(dropped, good, bad, rng)))


# ── expensive ─────────────────────────────────────────────────────────────────────────────────────────────────────

_random = random.Random(11)
POLYGON = [((0.8 + 0.2 * (i % 2)) * cos(i * pi / 100), (0.8 + 0.2 * (i % 2)) * sin(i * pi / 100)) for i in range(200)]
NAMES = ["Wilhelmina Harker", "Jonathan Seward", "Abraham van Helsing"]
RULE = re.compile(r"(\w+)=\1\b")
LAYERS = [[[_random.uniform(-1, 1) for _ in range(8)] for _ in range(n)] for n in (8, 8)]
PREFIXES = {f"{_random.getrandbits(n):0{n}b}/{n}" for n in range(16, 24) for _ in range(12_000 << max(0, n - 18))}


def valid_order(text: str) -> bool:
    """JSON parsed and checked."""
    order = json.loads(text)
    lines = order["lines"]
    return bool(order["total"] == sum(x["price"] * x["count"] for x in lines) and all(x["count"] > 0 for x in lines))


def known_name(name: str) -> bool:
    """Fuzzy match of a text."""
    return SequenceMatcher(None, name, NAMES[0], autojunk=False).ratio() > 0.8


def in_region(x: float, y: float) -> bool:
    """Point in a polygon of 200 vertices, by the winding of its edges."""
    winding, (px, py) = 0, POLYGON[-1]
    for qx, qy in POLYGON:
        side = (qx - px) * (y - py) - (x - px) * (qy - py)
        if py <= y < qy and side > 0:
            winding += 1
        elif qy <= y < py and side < 0:
            winding -= 1
        px, py = qx, qy
    return winding != 0


def follows_rule(text: str) -> bool:
    """A regular expression that backtracks."""
    return RULE.search(text) is not None


def likely(*features: float) -> bool:
    """The score of a small model."""
    layer: Sequence[float] = features
    for weights in LAYERS:
        layer = [max(0.0, sum([w * v for w, v in zip(row, layer)])) for row in weights]  # noqa: B905
    return 1 / (1 + exp(-sum(layer) / 8 + features[0])) > 0.5


def routed(address: str) -> bool:
    """Longest prefix in a large table."""
    bits = f"{int(address, 16):064b}"
    return any(f"{bits[:n]}/{n}" in PREFIXES for n in range(64, 15, -1))


def _pools(
    function: Callable[..., bool], make: Callable[[random.Random], Any], count: int = 200
) -> tuple[list[Any], list[Any]]:
    """Values that a function lets pass, and values that it drops."""
    rng, good, bad = random.Random(function.__name__), [], []
    for _ in range(200_000):
        value = make(rng)
        passes = function(*value) if isinstance(value, tuple) else function(value)
        if passes and len(good) < count:
            good.append(value)
        elif not passes and len(bad) < count:
            bad.append(value)
        if len(good) == len(bad) == count:
            return good, bad
    raise AssertionError(f"{function.__name__}: {len(good)} values pass, {len(bad)} do not")


def _order(rng: random.Random) -> str:
    lines = [{"item": rng.randint(1, 999), "price": rng.randint(1, 99), "count": rng.randint(1, 9)} for _ in range(20)]
    total = sum(x["price"] * x["count"] for x in lines) + rng.choice([0, 0, 5])
    return json.dumps({"customer": rng.randint(1, 10**6), "lines": lines, "total": total})


def _name(rng: random.Random) -> str:
    letters = list(rng.choice([NAMES[0], NAMES[0], NAMES[1]]))
    for _ in range(rng.randint(1, 4)):
        letters[rng.randrange(len(letters))] = rng.choice("aeiou")
    return "".join(letters)


def _sentence(rng: random.Random) -> str:
    words = ["".join(rng.choices("abcdefgh", k=6)) for _ in range(20)]
    last = rng.choice(words)
    return " ".join(f"{a}={b}" for a, b in itertools.pairwise(words)) + f" {last}={rng.choice([last, words[0]])}"


def expensive(rows: int = 300_000, seed: int = 0) -> FilterCase:
    """Python functions, a call a row."""
    drops, changes = population(rows, seed)
    rng = np.random.default_rng(seed)
    region = _pools(in_region, lambda r: (r.uniform(-1, 1), r.uniform(-1, 1)))
    point = _chosen(drops[:, 2], *region, rng)
    places = np.array([*region[0], *region[1]])[point]
    model = _pools(likely, lambda r: tuple(r.uniform(-2, 2) for _ in range(8)))
    features = np.array([*model[0], *model[1]])[_chosen(drops[:, 4], *model, rng)]
    columns = {
        "ts": np.arange(rows),
        "id": np.arange(rows),
        "document": _texts(drops[:, 0], *_pools(valid_order, _order), rng),
        "name": _texts(drops[:, 1], *_pools(known_name, _name), rng),
        "x": places[:, 0],
        "y": places[:, 1],
        "sentence": _texts(drops[:, 3], *_pools(follows_rule, _sentence), rng),
        **{f"w{i}": features[:, i] for i in range(8)},
        "address": _texts(drops[:, 5], *_pools(routed, lambda r: f"{r.getrandbits(64):016x}"), rng),
    }
    predicates = (
        predicate(valid_order, "document"),
        predicate(known_name, "name"),
        predicate(in_region, "x", "y"),
        predicate(follows_rule, "sentence"),
        predicate(likely, *(f"w{i}" for i in range(8))),
        predicate(routed, "address"),
    )
    return FilterCase("expensive", pa.table(columns), drops, changes, predicates)


# ── cheap ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ATTACK = r"GET /[a-z]+\?id=\d+"
NETWORKS = frozenset(f"10.{i}." for i in range(100, 250, 2))
CODES = {f"code-{i:04d}": i % 2 == 0 for i in range(4000)}
HOME = (0.9, 0.2)  # radians
FAR = 0.08


def attacked(payload: Any) -> Any:
    """A regular expression on 200 bytes."""
    return payload.str.contains(ATTACK, regex=True)


def marked(payload: Any) -> Any:
    """A substring of 200 bytes."""
    return payload.str.contains("session=", regex=False)


def inside(address: Any) -> Any:
    """Look-up of a prefix."""
    return address.str.slice(0, 7).isin(NETWORKS)


def balanced(u: Any, v: Any) -> Any:
    """A formula in numpy."""
    a, b = u.to_numpy(), v.to_numpy()
    return pd.Series(np.sqrt(a * a + b * b) + np.exp(-a * a) < 1.4)


def listed(code: Any) -> Any:
    """Look-up in a dictionary."""
    return code.map(CODES)


def near(latitude: Any, longitude: Any) -> Any:
    """Distance on a sphere (haversine)."""
    a, b = latitude.to_numpy(), longitude.to_numpy()
    h = np.sin((a - HOME[0]) / 2) ** 2 + np.cos(a) * cos(HOME[0]) * np.sin((b - HOME[1]) / 2) ** 2
    return pd.Series(2 * np.arcsin(np.sqrt(h)) < FAR)


def _payload(rng: random.Random, attack: bool, mark: bool) -> str:
    filler = ["".join(rng.choices("abcdefghij klmnop/?=", k=rng.randint(4, 12))) for _ in range(40)]
    filler = [w.replace("session=", "") for w in filler]
    at = rng.randint(0, 12)
    wanted = ["GET /index?id=17"] * attack + ["session=4f"] * mark
    text = " ".join([*filler[:at], *wanted, *filler[at:]])[:220].ljust(180, "x")
    return text[:200]


def cheap(rows: int = 2_000_000, seed: int = 0) -> FilterCase:
    """Pandas and numpy, a call a batch."""
    drops, changes = population(rows, seed)
    rng, pool = np.random.default_rng(seed), random.Random(seed)
    payloads = [_payload(pool, a, m) for a in (True, False) for m in (True, False) for _ in range(64)]
    payload = (drops[:, 0] * 2 + drops[:, 1]) * 64 + rng.integers(0, 64, rows)
    radius, angle = np.where(drops[:, 3], 1.4, 0.3) * rng.uniform(0.9, 1.1, rows), rng.uniform(0, pi / 2, rows)
    away = np.where(drops[:, 5], 0.12, 0.04) * rng.uniform(0.9, 1.1, rows)
    columns = {
        "ts": np.arange(rows),
        "id": np.arange(rows),
        "payload": pa.array(payloads).take(pa.array(payload)),
        "address": _texts(
            drops[:, 2],
            [f"10.{i:d}.{i % 7}.9" for i in range(100, 250, 2)],
            [f"10.{i:d}.{i % 7}.9" for i in range(101, 250, 2)],
            rng,
        ),
        "u": radius * np.cos(angle),
        "v": radius * np.sin(angle),
        "code": _texts(
            drops[:, 4], [c for c, good in CODES.items() if good], [c for c, good in CODES.items() if not good], rng
        ),
        "latitude": HOME[0] + away,
        "longitude": np.full(rows, HOME[1]),
    }
    predicates = (
        predicate(attacked, "payload", kind="pandas"),
        predicate(marked, "payload", kind="pandas"),
        predicate(inside, "address", kind="pandas"),
        predicate(balanced, "u", "v", kind="pandas"),
        predicate(listed, "code", kind="pandas"),
        predicate(near, "latitude", "longitude", kind="pandas"),
    )
    return FilterCase("cheap", pa.table(columns), drops, changes, predicates)
