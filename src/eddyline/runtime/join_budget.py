"""What a join may spend on looks: a share of what another plan could have spared so far."""

from __future__ import annotations

PRICE = 7000  # accesses that a look takes the time of, for each input: policies are asked, samples read, sums made
SHARE = 0.03  # of the accesses that could be spared: what looks may cost where nothing is gained by them
ALARM = 0.3  # share of a look's price that must be there if something has changed: then there is more to win


class LookBudget:
    """Whether a look is paid for, in accesses.

    No plan takes less than one probe for an element, so what a join takes beyond that is all that another plan could
    spare. That nothing is known of the future is met as by whoever has to decide between renting and buying: what comes
    is taken to be as long as what has been. So a join looks for the first time when a few hundred thousand accesses
    could have been spared: a bad plan early, a good one late, a short run never.

    >>> budget = LookBudget(inputs=3)
    >>> budget.earn(accesses=400_000, elements=90_000); budget.affords_look(), budget.missing()
    (False, 390001)
    >>> budget.earn(accesses=600_000, elements=100_000); budget.affords_look()
    True
    >>> budget.spend(1500); budget.affords_look(alarmed=True)
    False
    """

    __slots__ = ("held", "price")

    def __init__(self, inputs: int) -> None:
        self.price = PRICE * inputs
        self.held = 0.0

    def earn(self, accesses: int, elements: int) -> None:
        """Work was done, for so many elements that came or left."""
        self.held += SHARE * max(0, accesses - elements)

    def affords_look(self, alarmed: bool = False) -> bool:
        return self.held >= (ALARM if alarmed else 1.0) * self.price

    def missing(self, alarmed: bool = False) -> int:
        """How many accesses that could be spared are to come before a look is paid for."""
        return max(0, int(((ALARM if alarmed else 1.0) * self.price - self.held) / SHARE) + 1)

    def spend(self, profiling: int) -> None:
        """A look is over; it took so many accesses to learn."""
        self.held -= self.price + profiling
