"""The number of probes that elements should take while windows fill.

While windows fill, elements find more partners and take more probes. That is no sign that the data have changed, nor
that another order would be better: if all windows grow alike, the same filters go on dropping most. Where one window
grows faster than others, the best order may change, so such growth explains no change of the probes.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_GROWTH_RATIO = 1.1  # between the windows that grew most and least, up to which they have grown alike
_HALVINGS = 30


class Settled:
    """Probes an element when a plan was settled, and the rows that the windows had then, by input; without them nothing
    is explained.

    The model is that of equally frequent keys and inputs that are alike: an element has a partner in a window with
    probability q = 1 − e^(−λ), where λ is proportional to the rows, and takes 1 + q + q² + … probes. So g times as many
    rows make 1 − (1 − q)^g of q. Where keys are skewed it promises too much, and what comes is taken for a change, as
    it would be without the model.

    >>> settled = Settled(1.2, [100, 100, 100])
    >>> round(settled.expected([200, 205, 195]), 3), settled.expected([200, 100, 100])
    (1.36, 1.2)
    """

    __slots__ = ("partner", "rate", "rows")

    def __init__(self, rate: float, rows: Sequence[float] = ()) -> None:
        self.rate, self.rows = rate, rows
        self.partner: float | None = None  # q; None where the model says nothing
        if all(rows) and 1 < rate < len(rows) - 1:
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                q = (low + high) / 2
                low, high = (q, high) if _probes(q, len(rows)) < rate else (low, q)
            self.partner = low

    def expected(self, rows: Sequence[float]) -> float:
        """Probes an element with windows of so many rows, if the data are the same."""
        if self.partner is None:
            return self.rate
        grown = [now / before for before, now in zip(self.rows, rows, strict=True)]
        if not min(grown) or max(grown) > MAX_GROWTH_RATIO * min(grown):
            return self.rate
        return _probes(1 - (1 - self.partner) ** (sum(grown) / len(grown)), len(grown))


def _probes(q: float, inputs: int) -> float:
    return sum([q**j for j in range(inputs - 1)])
