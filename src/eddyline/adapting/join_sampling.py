"""Which elements of a profiling run are profiled: those that the policies of the pipelines draw, and enough for the
statistics of orders and caches (thesis 5.5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

# Samples of a pipeline in a profiling run, while A-Caching collects statistics of candidates, and while it uses caches:
# sampled elements use no cache. More give surer estimates and cost accesses.
SAMPLES_FOR_CANDIDATE_CACHES, SAMPLES_FOR_USED_CACHES = 12, 6
ELEMENTS_PER_CACHE_SAMPLE = 96  # while A-Caching collects: at least one sample for so many elements
# Samples of a pipeline in a profiling run of the default, where profiling runs are rare: enough to be sure of an order.
SAMPLES_FOR_ORDERS = 96

Draw = Callable[[int, int], Sequence[int]]  # input and number of elements: those that its policy wants


class ProfileSamples:
    """The samples of one profiling run, whose elements may come in many small pieces: after each piece a pipeline has
    had its share of the samples that it gets in all.

    >>> samples = ProfileSamples(inputs=2)
    >>> [list(s) for s in samples.choose([40, 0], part=0.125, least=16, collecting=False)]
    [[0, 20], []]
    >>> [list(s) for s in samples.choose([3, 3], part=0.25, least=16, collecting=False)]
    [[0, 1], [0, 1, 2]]
    """

    def __init__(self, inputs: int) -> None:
        self.taken = [0] * inputs  # by pipeline

    def choose(
        self, counts: Sequence[int], part: float, least: int, collecting: bool, draw: Draw | None = None
    ) -> Iterator[Sequence[int]]:
        """By input, which of its next ``counts`` elements are profiled. ``part`` of the run is over after them; in all
        of it a pipeline gets at least ``least`` samples, and more if A-Caching is ``collecting``."""
        total = max(least, SAMPLES_FOR_CANDIDATE_CACHES) if collecting else least
        for i, count in enumerate(counts):
            wanted = draw(i, count) if draw is not None and count else ()
            due = int(part * total) - self.taken[i]
            samples = min(count, max(0, due, count // ELEMENTS_PER_CACHE_SAMPLE if collecting else 0))
            if samples > len(wanted):
                spread = [n * count // samples for n in range(samples)]
                wanted = sorted({*wanted, *spread}) if wanted else spread
            self.taken[i] += len(wanted)
            yield wanted
