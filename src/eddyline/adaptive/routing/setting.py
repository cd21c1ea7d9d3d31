"""What a routing policy gets before the first tuple: the operators, and the attributes that may classify tuples."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.errors import JobError


@dataclass(frozen=True, slots=True)
class Setting:
    """Operators O_1 … O_n as a pipeline (pinned ones are walls, as for filters) and attributes C_1 … C_k.

    ``d`` is the number of partitions of each attribute's domain: class ids are 0 to d − 1. It is 24 in the paper. More
    tell more values apart, and leave fewer tuples of a sample to each. ``ranges`` are the attributes that are
    partitioned by range, whose neighbouring classes may be taken together.

    >>> Setting(Pipeline(3), ("sensor", "hour"), ranges=frozenset({1}))
    Setting(pipeline=Pipeline(filters=3, ...), attributes=('sensor', 'hour'), d=24, ranges=frozenset({1}))
    """

    pipeline: Pipeline
    attributes: tuple[str, ...]
    d: int = 24
    ranges: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not 2 <= self.d <= 4096:
            raise JobError(f"the number of partitions 'd' must be a whole number from 2 to 4,096, not {self.d}.")
        if not all(0 <= a < len(self.attributes) for a in self.ranges):
            raise JobError(
                f"attributes partitioned by range must be among 0 to {len(self.attributes) - 1}, "
                f"not {sorted(self.ranges)}."
            )

    @property
    def operators(self) -> int:
        return self.pipeline.filters

    def names(self, classifier: tuple[int, ...] | None) -> str | None:
        """How people call a classifier: ``'sensor'``, or ``'sensor, hour'`` for a set."""
        return None if classifier is None else ", ".join(self.attributes[a] for a in classifier)
