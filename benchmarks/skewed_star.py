"""A skewed join on which order matters. Orders R, whose keys follow Zipf's law, come fast; each is joined with what is
known of its customer (S, twelve rows; T has something to say about one in twelve), of its article (U) and of its
warehouse (V): R.a = S.a, S.b = T.b, R.c = U.c, R.d = V.d.

- *Windows.* S, T, U and V send each of their keys again once in a window, in another order each time, and their windows
  are large; R's is short. R begins when the others' are full.
- *Selectivities drift.* In each phase one of S, U and V hardly knows any of the keys that R asks for, so that most of
  R joins with nothing, and to ask that one first is to ask once. The others know nearly all.
- *Rates drift.* In each phase another stream is three times as fast; what it sends more is about keys that R does not
  ask for.

An order is one in which S, T, U and V are written. To ask S and then T for each of the rows that S has, before the one
that knows nothing, is what a bad order does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

OTHERS = "STUV"
EQUAL = {"S": "R.a = S.a", "T": "S.b = T.b", "U": "R.c = U.c", "V": "R.d = V.d"}
ASKED = {"a": "S", "c": "U", "d": "V"}  # attributes of R
KNOWS_LITTLE = ("U", "V", "S", "U")  # by phase
FAST = ("T", "S", "V", "U")
PHASES = len(FAST)
FASTER = 3  # times
UNKNOWN = (0.03, 0.97)  # share of R's keys that a stream does not know: usually, and in its phase
ZIPF = 0.7
ROWS = 12  # of S for a key
WINDOW = 2  # phases that the windows of the others hold; so long before R they begin
SHORT = 1000  # times the window of R is shorter
HUB = 12  # elements of R for two rows of a window of U or V, in a phase


def star(phase: int, seconds: float, seed: int = 7) -> Mapping[str, pa.Table]:
    """Streams R(ts, a, c, d, val), S(ts, a, b, val), T(ts, b, val), U(ts, c, val) and V(ts, d, val): ``phase`` elements
    of R a phase, all phases in ``seconds``, and before that what fills the windows. R begins at 0.

    >>> {name: (t.num_rows, t.column_names[1:-1]) for name, t in star(1200, 40).items()}
    {'R': (4800, ['a', 'c', 'd']), 'S': (1584, ['a', 'b']), 'T': (132, ['b']), 'U': (800, ['c']), 'V': (800, ['d'])}
    """
    rng = np.random.default_rng(seed)
    keys = 2 * phase // HUB
    length = round(seconds * 1_000_000 / PHASES)
    owners = max(1, 2 * keys // ROWS)  # S has twice as many rows as U or V
    b = np.arange(owners * ROWS)
    sent = {
        "S": {"a": b // ROWS, "b": b},
        "T": {"b": rng.choice(b, len(b) // ROWS, replace=False)},
        "U": {"c": np.arange(keys)},
        "V": {"d": np.arange(keys)},
    }
    tables = {"R": _hub(rng, phase, {"a": owners, "c": keys, "d": keys}, length)}
    return tables | {name: _other(rng, name, columns, length) for name, columns in sent.items()}


def _hub(rng: np.random.Generator, count: int, keys: Mapping[str, int], length: int) -> pa.Table:
    columns: dict[str, list[np.ndarray]] = {n: [] for n in ("ts", *keys, "val")}
    weights = {a: np.cumsum(np.arange(1, n + 1, dtype=float) ** -ZIPF) for a, n in keys.items()}
    often = {a: rng.permutation(n) for a, n in keys.items()}  # which keys are the frequent ones
    for p, little in enumerate(KNOWS_LITTLE):
        columns["ts"].append(np.sort(rng.integers(p * length, (p + 1) * length, count)))
        for a, n in keys.items():
            rank = np.searchsorted(weights[a], rng.random(count) * weights[a][-1])
            columns[a].append(often[a][rank] + n * (rng.random(count) < UNKNOWN[ASKED[a] == little]))
        columns["val"].append(rng.random(count))
    return _table(columns)


def _other(rng: np.random.Generator, name: str, sent: Mapping[str, np.ndarray], length: int) -> pa.Table:
    """All that it sends once a window, evenly spread, and in its fast phase more between."""
    n = len(next(iter(sent.values())))
    rounds = (WINDOW + PHASES) // WINDOW
    ts = [np.arange(rounds * n, dtype=np.int64) * (WINDOW * length) // n - WINDOW * length]
    which = [rng.permutation(n) for _ in range(rounds)]
    for p in (p for p, fast in enumerate(FAST) if fast == name):
        more = (FASTER - 1) * n // WINDOW
        ts.append(rng.integers(p * length, (p + 1) * length, more))
        which.append(rng.integers(0, n, more))
    order = np.argsort(np.concatenate(ts), kind="stable")
    chosen, more = np.concatenate(which)[order], order >= rounds * n
    # Above all keys that R has: those that are known, and as many that are not.
    keys = {c: v[chosen] + 2 * (int(v.max()) + 1) * more for c, v in sent.items()}
    columns = {"ts": np.concatenate(ts)[order], **keys, "val": rng.random(len(order))}
    return _table({c: [v] for c, v in columns.items()})


def _table(columns: Mapping[str, Iterable[np.ndarray]]) -> pa.Table:
    whole = {n: np.concatenate(list(v)) for n, v in columns.items()}
    return pa.table({**whole, "ts": pa.array(whole["ts"], pa.timestamp("us"))})


def widths(seconds: float) -> dict[str, int]:
    """The windows, in microseconds."""
    large = round(WINDOW * seconds * 1_000_000 / PHASES)
    return {"R": large // SHORT, **dict.fromkeys(OTHERS, large)}


def query(seconds: float, order: Sequence[str] = OTHERS) -> str:
    """The join, with S, T, U and V in this order."""
    windows = [f"{n} [RANGE {widths(seconds)[n]} MICROSECONDS]" for n in ("R", *order)]
    told = ", ".join(f"{n}.val AS {n.lower()}" for n in ("R", *OTHERS))
    return f"SELECT Istream({told})\nFROM {', '.join(windows)}\nWHERE {' AND '.join(EQUAL[n] for n in order)}"
