"""Stream-Star, the paper's synthetic workload (6.1), as a matrix: what each operator does with each tuple, and the
classes of its attributes.

The joins of a stream with dimension tables are filters here: a tuple passes if its key is in the table. ``attrC``
decides with which probability, the other attributes have nothing to do with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Float64s, Int64s

CLASSIFIER = 0  # the attribute that correlates: attrC


@dataclass(frozen=True, slots=True)
class StreamStar:
    """``passes`` by tuple and operator, ``classes`` by tuple and attribute (``attrC`` first), and the true
    ``selectivity`` by class and operator.
    """

    setting: Setting
    passes: Bools
    classes: Int64s
    selectivity: Float64s


def stream_star(
    selectivity: Float64s, tuples: int = 100_000, *, others: int = 8, d: int = 24, seed: int = 0
) -> StreamStar:
    """Tuples of equally frequent classes, with these selectivities by class and operator, and ``others`` attributes:
    a constant, a sequence, and foreign keys of different domains.

    >>> star = stream_star(skewed(4, 0.1), tuples=50_000)
    >>> star.passes.all(1).mean().round(3), star.passes[star.classes[:, 0] == 2].mean(0).round(2).tolist()
    (np.float64(0.05), [0.8, 0.79, 0.1, 0.8])
    """
    random = np.random.default_rng(seed)
    values, n = selectivity.shape
    kind = random.integers(0, values, tuples)
    passes = random.random((tuples, n)) < selectivity[kind]
    columns = [kind % d]
    for other in range(others):
        if other == 0:
            columns.append(np.zeros(tuples, np.int64))
        elif other == 1:
            columns.append(np.arange(tuples) % d)
        else:
            columns.append(random.integers(0, (2, 4, 8, d, d, d)[(other - 2) % 6], tuples) % d)
    names = ("attrC", "constant", "sequence", *(f"key{i}" for i in range(2, others)))[: others + 1]
    return StreamStar(Setting(Pipeline(n), names, d), passes, np.column_stack(columns), selectivity)


def skewed(n: int, a: float, aggregate: float = 0.05) -> Float64s:
    """Table 3: class i passes operator i with probability A and the others with B, so that a share ``aggregate`` of the
    tuples passes all.

    >>> skewed(2, 0.5).round(2).tolist()
    [[0.5, 0.1], [0.1, 0.5]]
    """
    b = (aggregate / a) ** (1 / (n - 1))
    table: Float64s = np.where(np.eye(n, dtype=np.bool_), a, min(b, 1.0))
    return table


def random_selectivities(
    n: int, values: int | None = None, *, aggregate: float | None = None, seed: int = 0
) -> Float64s:
    """Section 6.4: uniform selectivities for each class and operator. With ``aggregate`` (6.5) each class's are raised
    to the power at which their product is that share.

    >>> random_selectivities(6, aggregate=0.2, seed=1).prod(1).round(3).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2, 0.2]
    """
    table = np.random.default_rng(seed).uniform(0.01, 0.99, (n if values is None else values, n))
    if aggregate is not None:
        table = table ** (np.log(aggregate) / np.log(table).sum(1, keepdims=True))
    return table
