"""Pictures of what adapted: filters evaluated per row over time, selectivities by class, and the rate of a join.

They take a query, running or finished, or statistics as plain data, and return a matplotlib ``Axes``; matplotlib is an
optional dependency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eddyline.core.errors import EddylineError, JobError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REMEDY = "plots need matplotlib, which is not installed: pip install 'eddyline[plot]'"
_LABEL_CHARACTERS = 34  # of a conjunct on an axis, at most


def timeline(source: Any, operator: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Filters evaluated per row as the query went on, profiling on top, and a mark at each decision.

    ``source`` is a query, its ``statistics()``, or the statistics of one operator; ``operator`` names one where several
    adapt.

    >>> import eddyline as ed
    >>> session = ed.Session()
    >>> session.stream("S", [{"ts": i, "a": i % 7} for i in range(5000)], timestamp="ts")
    >>> session.function("never", lambda a: a > 9)
    >>> session.function("mostly", lambda a: a < 6)
    >>> query = session.query("SELECT Istream(ts) FROM S WHERE mostly(a) AND never(a)")
    >>> query.to_arrow().num_rows
    0
    >>> timeline(query).get_ylabel()
    'filters evaluated per row'
    """
    name, statistics = _one(source, operator, "history", "keeps a history of what it evaluated")
    history = statistics["history"]
    rows = np.array(history["rows"], np.float64)
    if not len(rows):
        raise EddylineError(f"{name} has processed no rows yet: there is no timeline to draw.")
    axis = _axes(ax, (8.0, 3.6))
    ends = np.concatenate([[0.0], rows.cumsum()])
    asked, profiling = (np.array(history[k], np.float64) / rows for k in ("asked", "profiling"))
    axis.stairs(asked + profiling, ends, baseline=asked, fill=True, color="C1", alpha=0.6, label="to learn (profiling)")
    axis.stairs(asked, ends, baseline=None, color="C0", linewidth=1.5, label="on the way")
    for i, at in enumerate(history["decided"]):
        axis.axvline(at, color="C3", linestyle=":", linewidth=1, label="decision" if i == 0 else None)
    axis.set(xlabel="rows", ylabel="filters evaluated per row", xlim=(0, ends[-1]), ylim=(0, None))
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axis.set_title(f"{name}: {statistics['policy']}" if "policy" in statistics else name)
    # Beside the curves, not on them.
    axis.legend(loc="lower left", bbox_to_anchor=(0, -0.36), ncols=3, frameon=False, fontsize=9)
    return axis


def heat_map(source: Any, attribute: str | None = None, operator: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Selectivities by class of an attribute and operator: what each lets pass of the rows that it was asked about.

    ``source`` is a query that routes by content, its ``statistics()``, those of one of its operators, or a routing
    policy; ``attribute`` is by default the one that classifies most of the operators. Grey: no row of the class came.

    >>> from eddyline.adaptive.routing.default import Default
    >>> from eddyline.adaptive.routing.simulate import simulate
    >>> from eddyline.adaptive.routing.stream_star import skewed, stream_star
    >>> star = stream_star(skewed(3, 0.05), 20_000)
    >>> policy = Default(star.setting)
    >>> run = simulate(policy, star.passes, star.classes)
    >>> heat_map(policy).get_ylabel()
    'attrC'
    """
    name, statistics = _one(source, operator, ("by_class", "classifiers"), "routes by content")
    attribute, classes, operators, matrix = _by_class(name, statistics, attribute)
    axis = _axes(ax, (1.8 + 1.1 * max(len(operators), 3), 1.8 + 0.32 * max(len(classes), 3)))
    from matplotlib import colormaps

    colours = colormaps["viridis"].with_extremes(bad="lightgrey")
    image = axis.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(operators)), [_short(o) for o in operators])
    if max(map(len, operators)) > 8:
        axis.tick_params(axis="x", rotation=25)
        for label in axis.get_xticklabels():
            label.set_horizontalalignment("right")
    axis.set_yticks(range(len(classes)), classes)
    if len(classes) <= 40:
        for (row, column), share in np.ndenumerate(matrix):
            if share == share:
                ink = "white" if share < 0.6 else "black"
                axis.text(column, row, f"{share:.0%}", ha="center", va="center", color=ink, fontsize=8)
    axis.set(ylabel=attribute, title=f"{name}: share that passes, by class")
    axis.figure.colorbar(image, ax=axis, format=lambda x, _: f"{x:.0%}")
    return axis


def join_rates(source: Any, operator: str | None = None, *, points: int = 120, ax: Axes | None = None) -> Axes:
    """The processing rate of a join as elements came, and the accesses that one took, with a line at each change of its
    plan: Figure 5.22 of the thesis for your own query.

    ``source`` and ``operator`` are as for ``timeline``. Runs are put together into about ``points`` stretches of equal
    length. The rate is what this machine did; accesses are the same on any. To save it:
    ``join_rates(query).figure.savefig("rates.png")``.

    >>> import eddyline as ed
    >>> session = ed.Session()
    >>> for name in "RST":
    ...     session.stream(name, [{"ts": i, "a": i % 5} for i in range(500)], timestamp="ts")
    >>> text = "SELECT Istream(r.ts) FROM R [ROWS 9] r, S [ROWS 9] s, T [ROWS 9] t WHERE r.a = s.a AND s.a = t.a"
    >>> query = session.query(text)
    >>> query.to_arrow().num_rows > 0
    True
    >>> join_rates(query).get_ylabel()
    'elements a second'
    """
    name, statistics = _one(source, operator, "accesses", "joins three or more inputs")
    history = statistics.get("history", ())
    if not history:
        raise EddylineError(f"{name} has no changes to draw: its plan is fixed, or no element has come yet.")
    total, elements, seconds, work, made = (
        np.array([h[n] for h in history], np.float64) for n in ("total", "elements", "seconds", "accesses", "decisions")
    )
    axis = _axes(ax, (8.0, 3.8))
    start = total[0] - elements[0]
    edges = np.linspace(start, total[-1], max(2, min(points, len(total)) + 1))
    cut = np.unique(np.searchsorted(total, edges[1:]).clip(0, len(total) - 1)) + 1
    begin = np.concatenate([[0], cut[:-1]])
    summed = {n: np.add.reduceat(v, begin) for n, v in (("n", elements), ("s", seconds), ("w", work))}
    ends = np.concatenate([[start], total[cut - 1]])
    rate = summed["n"] / np.maximum(summed["s"], 1e-9)
    axis.stairs(rate, ends, baseline=None, color="C0", linewidth=1.5, label="elements a second")
    other = axis.twinx()
    per = summed["w"] / np.maximum(summed["n"], 1)
    other.stairs(per, ends, baseline=None, color="C1", linewidth=1.2, label="accesses an element (right)")
    # A history has the number of decisions at the end of each run.
    changes = total[np.flatnonzero(np.diff(made, prepend=made[0]) > 0)]
    for i, at in enumerate(changes):
        axis.axvline(at, color="C3", linestyle=":", linewidth=1, label="the plan changes" if i == 0 else None)
    axis.set(xlabel="elements", ylabel="elements a second", xlim=(ends[0], ends[-1]), ylim=(0, None), title=name)
    other.set(ylabel="accesses an element", ylim=(0, 1.1 * max(per.max(), 1e-9)))
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axis.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    handles = [h for a in (axis, other) for h in a.get_legend_handles_labels()[0]]
    names = [n for a in (axis, other) for n in a.get_legend_handles_labels()[1]]
    axis.legend(handles, names, loc="lower left", bbox_to_anchor=(0, -0.36), ncols=3, frameon=False, fontsize=9)
    return axis


def _by_class(
    name: str, statistics: Mapping[str, Any], wanted: str | None
) -> tuple[str, list[str], list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """The attribute, its classes, the operators, and a matrix with NaN where nothing is known."""
    if "by_class" in statistics:
        tables, used = statistics["by_class"], [a for by in statistics["classifiers"] for a in by or ()]
        attribute = _chosen(name, wanted, list(tables), used)
        table = tables[attribute]
        return attribute, list(table["classes"]), list(statistics["filters"]), _matrix(table["selectivity"])
    # A bare policy has classes by number, and only of the operators that it has classified.
    classified = statistics["classifiers"]
    of = {o: _text(c["attribute"]) for o, c in classified.items()}
    attribute = _chosen(name, wanted, sorted(set(of.values())), list(of.values()))
    columns = {o: classified[o]["selectivity_by_class"] for o in sorted(of) if of[o] == attribute}
    matrix = _matrix(list(columns.values())).T
    known = np.flatnonzero(np.isfinite(matrix).any(1))
    return attribute, [f"class {c}" for c in known], [f"O{o + 1}" for o in columns], matrix[known]


def _chosen(name: str, wanted: str | None, there: Sequence[str], used: Sequence[str]) -> str:
    if wanted is not None:
        if wanted not in there:
            raise JobError(f"{name} has no classes of {wanted!r}.{did_you_mean(wanted, there)}")
        return wanted
    if not there:
        raise EddylineError(f"{name} has found no classifier: there is no heat map to draw.")
    return max(used, key=used.count) if used else there[0]


def _matrix(lines: Sequence[Sequence[float | None]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([[np.nan if x is None else x for x in line] for line in lines], np.float64)


def _text(attribute: Any) -> str:
    return attribute if isinstance(attribute, str) else ", ".join(map(str, attribute))


def _short(text: str) -> str:
    return text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 1] + "…"


def _one(source: Any, operator: str | None, keys: str | tuple[str, ...], what: str) -> tuple[str, Mapping[str, Any]]:
    """The statistics of one operator, with its name: from a query, from plain data, or from a policy."""
    keys = (keys,) if isinstance(keys, str) else keys
    if not isinstance(source, Mapping) and not hasattr(source, "statistics"):
        raise JobError(f"there is nothing to draw of {source!r}: pass a query, or what its statistics() gave.")
    statistics = source if isinstance(source, Mapping) else source.statistics()
    if any(k in statistics for k in keys):
        return operator or str(getattr(source, "name", "select")), statistics
    fitting = {n: s for n, s in statistics.items() if isinstance(s, Mapping) and any(k in s for k in keys)}
    if operator is not None:
        if operator not in fitting:
            raise JobError(f"no operator named {operator!r} {what}.{did_you_mean(operator, list(fitting))}")
        return operator, fitting[operator]
    if not fitting:
        raise EddylineError(f"nothing in this query {what}: there is nothing to draw.")
    if len(fitting) > 1:
        raise JobError(f"several operators adapt; name one of them: {', '.join(fitting)}.")
    return next(iter(fitting.items()))


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EddylineError(REMEDY) from None
    if ax is not None:
        return ax
    # A figure of its own: pyplot would choose a backend and keep it open.
    return Figure(figsize=size, layout="constrained").add_subplot()
