"""When a constrained join and the plain join hand over to one another: the constants, and what each trades.

None has a source in the thesis, which has one join. They bound what a wrong guess costs: a hand-over copies all rows
once, which is about as much work as half a window of arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandOver:
    """The plain join takes over where constraints save nothing, the constrained one where less state is needed.

    ``worthless``
        Share of the rows of the windows above which constraints count as saving nothing. A status, chains and lists
        cost more than a tenth of the rows are worth: nearer to 1 stays longer with a join that is slower, lower gives
        savings away.
    ``patience``
        Windows of arrivals without a saving before the plain join takes over; never less than ``least_patience``
        arrivals. Fewer change sooner, and change back and forth where a constraint fails for a while.
    ``filling``
        Of full windows no less than this is waited for: while they fill nothing can have been saved yet. More stays
        longer with a join whose constraints never hold, less gives it up before a k is known.
    ``most_back_off``
        Each attempt in vain doubles the time until the next, up to so many windows: more cost less where constraints
        never hold, and notice later that they do again.
    ``full``
        Share of the memory limit at which ``auto`` begins to save. What is left is for rows that come while samples
        are taken and rows are handed over: nearer to 1 risks to exceed the limit, lower saves memory that is not
        short.
    ``large``
        Bytes of state beyond which most accesses miss the processor's caches, so that less of it may be faster even
        with more work for each element. It is then measured: see ``trial`` and ``faster``.
    ``watched``
        Share of the bytes at which ``auto`` would change from which on it takes samples, which cost up to 2 %.
    ``trial``
        Elements of each join whose times are compared: fewer decide by chance, more keep the slower one longer.
    ``faster``
        Share of the plain join's time that the constrained one may take and stay, where speed was the reason.
    """

    worthless: float = 0.9
    patience: float = 0.5
    filling: float = 0.25
    least_patience: int = 4_000
    most_back_off: int = 64
    full: float = 0.7
    large: int = 64 << 20
    watched: float = 0.5
    trial: int = 200_000
    faster: float = 0.95

    def idle(self, held: float, full: float) -> float:
        """Arrivals without a saving after which the plain join takes over: windows hold so many rows, and when full.

        >>> HandOver().idle(20_000, 150_000), HandOver().idle(150_000, 150_000)
        (37500.0, 75000.0)
        """
        return max(self.least_patience, self.patience * held, self.filling * full)

    def bytes_under(self, memory: int | None) -> float:
        """The bytes of state at which ``auto`` changes the join, under a limit of a query's memory or without one.

        >>> HandOver().bytes_under(1_000_000), HandOver().bytes_under(None)
        (700000.0, 67108864)
        """
        return self.large if memory is None else min(self.large, self.full * memory)
