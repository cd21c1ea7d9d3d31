"""What a join may spend on looks: a small share of its work, and more as long as they win something."""

from __future__ import annotations

PRICE = 6000  # accesses that a look takes the time of, for each input: policies are asked, samples read, sums made
SHARE = 0.03  # of the work: what looks may cost where nothing is gained by them
ALARM = 0.3  # share of a look's price that must be there if something has changed: then there is more to win
WON = 3  # looks that are paid for by one that has changed the plan


class LookBudget:
    """Whether a look is paid for, in accesses.

    Nothing is known of the future, so what comes is taken to be as long as what has been, as by whoever has to decide
    between renting and buying: a join looks for the first time when it has done so much work that a look is a small
    share of it. A bad plan gets there early, for it takes many accesses; a good one late; a short run never. Where a
    look has changed the plan it has won more than it cost, and there may be more to win.

    >>> budget = LookBudget(inputs=3)
    >>> budget.earn(accesses=400_000, elements=90_000); budget.affords_look(), budget.missing()
    (False, 110001)
    >>> budget.earn(accesses=100_000, elements=20_000); budget.affords_look()
    True
    >>> budget.spend(1500); budget.affords_look(alarmed=True)
    False
    >>> budget.win(); budget.affords_look()
    True
    """

    __slots__ = ("held", "price")

    def __init__(self, inputs: int) -> None:
        self.price = PRICE * inputs
        self.held = 0.0

    def earn(self, accesses: int, elements: int) -> None:
        """Work was done, for so many elements that came or left; one takes as long as an access beside its own."""
        self.held += SHARE * (accesses + elements)

    def affords_look(self, alarmed: bool = False) -> bool:
        return self.held >= (ALARM if alarmed else 1.0) * self.price

    def missing(self, alarmed: bool = False) -> int:
        """How much work is to come before a look is paid for."""
        return max(0, int(((ALARM if alarmed else 1.0) * self.price - self.held) / SHARE) + 1)

    def spend(self, profiling: int) -> None:
        """A look is over; it took so many accesses to learn."""
        self.held -= self.price + profiling

    def win(self) -> None:
        """A look has changed the plan."""
        self.held = max(self.held, float(WON * self.price))
