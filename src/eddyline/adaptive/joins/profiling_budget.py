"""What a join may spend on profiling runs: a small share of its work, and more as long as they change the plan."""

from __future__ import annotations

ACCESSES_PER_INPUT = (
    6000  # accesses that a look takes the time of, for each input: policies are asked, samples read, sums made
)
BUDGET_SHARE = 0.03  # of the work: what looks may cost where nothing is gained by them
ALARM_PRICE_SHARE = (
    0.3  # share of a look's price that must be there if something has changed: then there is more to win
)
RUNS_PER_WIN = 3  # looks that are paid for by one that has changed the plan


class ProfilingBudget:
    """Whether a profiling run is paid for, in accesses.

    Nothing is known of the future, so the rest of the stream is assumed to be as long as what has come (the ski-rental
    argument): the first profiling run comes when the join has done so much work that the run is a small share of it. A
    bad plan gets there early, for it takes many accesses; a good one late; a short join never. A profiling run that has
    changed the plan has won more than it cost, and there may be more to win.

    >>> budget = ProfilingBudget(inputs=3)
    >>> budget.earn(accesses=400_000, elements=90_000); budget.affords_profiling_run(), budget.missing()
    (False, 110001)
    >>> budget.earn(accesses=100_000, elements=20_000); budget.affords_profiling_run()
    True
    >>> budget.spend(1500); budget.affords_profiling_run(alarmed=True)
    False
    >>> budget.win(); budget.affords_profiling_run()
    True
    """

    __slots__ = ("held", "price")

    def __init__(self, inputs: int) -> None:
        self.price = ACCESSES_PER_INPUT * inputs
        self.held = 0.0

    def earn(self, accesses: int, elements: int) -> None:
        """Work was done, for so many elements that came or left; one takes as long as an access beside its own."""
        self.held += BUDGET_SHARE * (accesses + elements)

    def affords_profiling_run(self, alarmed: bool = False) -> bool:
        return self.held >= (ALARM_PRICE_SHARE if alarmed else 1.0) * self.price

    def missing(self, alarmed: bool = False) -> int:
        """How much work is to come before a profiling run is paid for."""
        return max(0, int(((ALARM_PRICE_SHARE if alarmed else 1.0) * self.price - self.held) / BUDGET_SHARE) + 1)

    def spend(self, profiling: int) -> None:
        """A profiling run is over; it took so many accesses to learn."""
        self.held -= self.price + profiling

    def win(self) -> None:
        """A profiling run has changed the plan."""
        self.held = max(self.held, float(RUNS_PER_WIN * self.price))
