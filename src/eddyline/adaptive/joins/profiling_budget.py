"""The budget of a join for profiling runs: a small share of its work, and more as long as they change the plan."""

from __future__ import annotations

# The fixed cost of a profiling run beside its own accesses, as accesses for each input: calls of policies, reading of
# samples, sums.
ACCESSES_PER_INPUT = 20_000
# The fixed cost of an element beside its own accesses: inserting it into its window and index, and removing it.
ACCESSES_PER_ELEMENT = 8
BUDGET_SHARE = 0.03  # of the work, which profiling runs may cost while they change nothing
# After an alarm a profiling run needs this share of its price only: a change of the data makes savings likely.
ALARM_PRICE_SHARE = 0.3
SAVINGS_SHARE = 0.2  # of the accesses that a new plan saves, which further profiling runs may cost
MAX_RUNS_PER_NEW_PLAN = 3  # further profiling runs that a run which has changed the plan adds to the budget, at most


class ProfilingBudget:
    """Whether a profiling run is paid for, in accesses.

    Nothing is known of the future, so the rest of the stream is assumed to be as long as what has come (the ski-rental
    argument): the first profiling run comes when the join has done so much work that the run is a small share of it. A
    bad plan gets there early, for it takes many accesses; a good one late; a short join never. A profiling run that has
    changed the plan pays for more of them from what it saves in the rest of the stream: there may be more to win, but
    where it saved less than a few runs cost, so would the next.

    >>> budget = ProfilingBudget(inputs=3)
    >>> budget.earn(accesses=400_000, elements=100_000); budget.affords_profiling_run(), budget.missing()
    (False, 800001)
    >>> budget.earn(accesses=400_000, elements=50_001); budget.affords_profiling_run()
    True
    >>> budget.spend(1500); budget.affords_profiling_run(alarmed=True)
    False
    >>> budget.win(saved=50_000); budget.affords_profiling_run(alarmed=True)
    False
    >>> budget.win(saved=500_000); budget.affords_profiling_run()
    True
    """

    __slots__ = ("held", "price")

    def __init__(self, inputs: int) -> None:
        self.price = ACCESSES_PER_INPUT * inputs
        self.held = 0.0

    def earn(self, accesses: int, elements: int) -> None:
        """Work was done, for so many elements that came or left."""
        self.held += BUDGET_SHARE * (accesses + ACCESSES_PER_ELEMENT * elements)

    def affords_profiling_run(self, alarmed: bool = False) -> bool:
        return self.held >= (ALARM_PRICE_SHARE if alarmed else 1.0) * self.price

    def missing(self, alarmed: bool = False) -> int:
        """How much work is to come before a profiling run is paid for."""
        return max(0, int(((ALARM_PRICE_SHARE if alarmed else 1.0) * self.price - self.held) / BUDGET_SHARE) + 1)

    def spend(self, profiling: int) -> None:
        """A profiling run is over; it took so many accesses to learn."""
        self.held -= self.price + profiling

    def win(self, saved: float) -> None:
        """A profiling run has changed the plan, which would have saved so many accesses so far."""
        self.held = max(self.held, min(SAVINGS_SHARE * saved, float(MAX_RUNS_PER_NEW_PLAN * self.price)))
