"""Index tuners by name, as in ``WITH (joins = 'routes', index = 'amri(theta = 0.1)')``, with the paper's defaults.

``hash(3)`` is written with the number of hash indices alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.adaptive.indexes.amri import Amri, StaticBitmap
from eddyline.adaptive.indexes.assessment import ASSESSMENTS
from eddyline.adaptive.indexes.cost import UnitCosts
from eddyline.adaptive.indexes.fitting import Fitting
from eddyline.adaptive.indexes.migration import MIGRATIONS
from eddyline.adaptive.indexes.routes import POLICIES as ROUTES
from eddyline.adaptive.indexes.scheduling import CHANGE, SCHEDULES
from eddyline.adaptive.indexes.tuners import AdaptiveHashes, IndexTuner, SingleHashes
from eddyline.streamon.parameters import SEED, NamedChoice, Parameter
from eddyline.streamon.strategies import find, strategy

THETA = Parameter("theta", 0, 1, "share of the searches from which a pattern counts: larger keeps fewer patterns")
EPSILON = Parameter("epsilon", 0, 1, "error of a share: smaller is more exact and keeps more patterns in between")
ASSESSMENT = NamedChoice("assessment", tuple(ASSESSMENTS), "how patterns are counted: compact methods keep fewer")
SCHEDULING = NamedChoice(
    "scheduling", tuple(SCHEDULES), "when a state is assessed: more often follows sooner, costs more"
)
MIGRATION = NamedChoice("migration", MIGRATIONS, "which stored partitions get a new index at once")
WINDOW = Parameter("window", 1, 10**9, "searches that make an assessment: more are steadier, and slower", whole=True)
PERIODIC = Parameter("periodic", 1, 10**12, "searches between two assessments by the clock of searches", whole=True)
TRIGGERED = Parameter("triggered", 1, 10**12, "searches between two comparisons of rates and patterns", whole=True)
SHIFT = Parameter("change", 0, 10, "change of a rate or of the mix of patterns that triggers an assessment")
BUDGET = Parameter("memory", 1, 10**15, "bytes of all buckets together: less means longer buckets", whole=True)
COSTS = NamedChoice(
    "costs", ("measured", "counted"), "what operations cost: measured at the start, or one each, always"
)
COUNT = Parameter("count", 1, 64, "hash indices of each state: more serve more patterns and cost upkeep", whole=True)
EXPLORE = Parameter(
    "explore",
    1,
    10**9,
    "at most one row in so many takes another route: fewer rows learn later and cost less",
    whole=True,
)
ROUTE = NamedChoice("routes", ROUTES, "how a batch finds its next state")
PARTITION = Parameter("partition", 1, 65_536, "rows of a time partition: fewer follow a change sooner", whole=True)
BATCH = Parameter(
    "batch",
    1,
    1_000_000,
    "rows that are routed together (1024, of large ROWS windows a tenth): more cost less and learn more slowly",
    whole=True,
)
IN_FLIGHT = Parameter("in_flight", 1, 1_000, "batches that are routed at a time", whole=True)

_ROUTED = (ROUTE, EXPLORE, PARTITION, BATCH, IN_FLIGHT, SEED)
_ASSESSED = (ASSESSMENT, THETA, EPSILON, SCHEDULING, WINDOW, PERIODIC, TRIGGERED, SHIFT, MIGRATION, COSTS)


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """All parameters of a multi-route join and its indexes: those of sections 9.1 and 9.2 where the paper has one."""

    assessment: str = "sria"
    theta: float = 0.1
    epsilon: float = 0.05
    scheduling: str = "hybrid"
    window: int = 20_000
    periodic: int = 60_000
    triggered: int = 100_000
    change: float = CHANGE
    migration: str = "expected"
    costs: str = "measured"
    memory: int | None = None
    count: int = 3
    routes: str = "greedy"
    explore: int = 64
    partition: int = 2_500
    batch: int | None = None  # None: the planner sets it
    in_flight: int = 4
    seed: int = 0
    rows: int = 0  # of all windows when they are full, 0: not known; no option, the planner sets it
    largest: int = 0  # of the largest window

    def assessed(self, states: Sequence[int]) -> tuple[Any, ...]:
        """What every tuner that assesses is made from."""
        return (
            states, self.assessment, self.theta, self.epsilon, self.scheduling, self.window, self.periodic,
            self.triggered, self.change, self.migration, self.seed,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HashOptions(IndexOptions):
    """A pattern without a hash index compares all rows, so that every pattern is counted."""

    assessment: str = "sria"


@strategy("index", name="amri", parameters=(*_ASSESSED, BUDGET, *_ROUTED), like=IndexOptions)
def _amri(states: Sequence[int], unit: UnitCosts, options: IndexOptions) -> IndexTuner:
    """The Adaptive Multi-Route Index: one bit-address index a state, its bits chosen as searches change."""
    return Amri(*options.assessed(states), unit=unit, budget=options.memory, partition=options.partition)


@strategy("index", name="bitmap", parameters=(*_ASSESSED, BUDGET, *_ROUTED), like=IndexOptions)
def _bitmap(states: Sequence[int], unit: UnitCosts, options: IndexOptions) -> IndexTuner:
    """One bit-address index a state, its bits chosen once, from the first searches."""
    return StaticBitmap(*options.assessed(states), unit=unit, budget=options.memory, partition=options.partition)


@strategy("index", name="hash", parameters=(COUNT, *_ASSESSED, *_ROUTED), like=HashOptions)
def _hash(states: Sequence[int], unit: UnitCosts, options: IndexOptions) -> IndexTuner:
    """Hash indices for the access patterns that are asked for most; 'hash(3)' has three a state."""
    return AdaptiveHashes(*options.assessed(states), count=options.count)


@strategy("index", name="single", parameters=_ROUTED, like=IndexOptions)
def _single(states: Sequence[int], unit: UnitCosts, options: IndexOptions) -> IndexTuner:
    """A hash index on each join attribute; what it finds is compared with the rest of the search."""
    return SingleHashes()


@strategy("index", name="fitting", parameters=(*_ASSESSED, BUDGET, *_ROUTED), like=IndexOptions)
def _fitting(states: Sequence[int], unit: UnitCosts, options: IndexOptions) -> IndexTuner:
    """The quickest within so many bytes of indexes: an MJoin if its indexes fit; else a multi-route join whose states
    have bit-address or hash indexes, whichever cost least, chosen again as searches change."""
    return Fitting(
        *options.assessed(states), unit=unit, budget=options.memory, partition=options.partition, rows=options.rows,
        largest=options.largest, batch=options.batch or 0,
    )  # fmt: skip


def parse_index(text: str) -> tuple[str, IndexOptions]:
    """The name of a tuner and the options of its join.

    >>> name, options = parse_index("hash(5)")
    >>> name, options.count, options.partition
    ('hash', 5, 2500)
    >>> parse_index("amri(assessment = csria, theta = 0.15)")[1].theta
    0.15
    >>> parse_index("amri(bits = 7)")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the index policy 'amri' has no option 'bits'. It has: assessment, theta, epsilon,
    scheduling, window, periodic, triggered, change, migration, costs, memory, routes, explore, partition, batch,
    in_flight, seed.
    """
    counted = re.fullmatch(r"\s*hash\s*\(\s*(\d+)\s*\)\s*", text, re.IGNORECASE)
    found, written = find("index", f"hash(count={counted.group(1)})" if counted else text)
    options = HashOptions if found.name == "hash" else IndexOptions
    return found.name, options(**found.checked(written))


def make_tuner(name: str, options: IndexOptions, states: Sequence[int], unit: UnitCosts) -> IndexTuner:
    """The tuner for a join whose states have these numbers of join attributes."""
    found, _ = find("index", name)
    made: IndexTuner = found.make(states, unit, options)
    return made
