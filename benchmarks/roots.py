"""Roots of many polynomials on an interval: our kernel against numpy's eigenvalues of companion matrices.

What numpy has is one polynomial at a time (``numpy.roots``) or, faster, all eigenvalues of all companion matrices in
one call. Both find every complex root; a query needs the real ones on the segment, which brackets give. The kernel is
timed with what a query pays: scaling, and the intervals on which the polynomial is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Limit, Options, Report
from benchmarks.models import median

MANY, DEGREES = 20_000, (3, 4, 8, 16)
NEAR = 1e-7  # of an end or of another root: there the two may count differently


class Roots:
    name = "roots"
    title = "roots of polynomials on a segment, our kernel against numpy's eigenvalues, processor time"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        many, details = options.scaled(MANY), []
        for degree in DEGREES:
            c = np.random.default_rng(degree).normal(size=(many, degree + 1))
            ours, theirs = median([kernel(c), eigenvalues(c)], options)
            same = agreement(c)
            report.lines.append(
                f"  degree {degree:2d}:{1e9 * ours / many:8.0f} ns a polynomial, numpy{1e9 * theirs / many:8.0f} ns; "
                f"the same number of roots for {same:.4%} of them"
            )
            report.limits.append(Limit(f"degree {degree}: numpy's time by ours", theirs / ours, 1.0, "at least"))
            details.append({"degree": degree, "ours_s": ours, "numpy_s": theirs, "same": same})
        report.details = {"measurements": details}
        return report


def kernel(c: Any) -> Callable[[], Any]:
    from eddyline.kernels.polynomials import EQ, HIGH_CLOSED, LOW_CLOSED
    from eddyline.models.pieces import Pieces
    from eddyline.models.solving import solve

    n, zero = len(c), np.zeros(len(c))
    pieces = Pieces(zero, np.ones(n), np.full(n, LOW_CLOSED | HIGH_CLOSED, np.uint8), zero, {}, {})
    return lambda: solve(c, np.zeros((n, 1)), EQ, pieces, 1.0)


def eigenvalues(c: Any) -> Callable[[], Any]:
    """All roots of all polynomials, of which the real ones between 0 and 1 are kept."""

    def run() -> Any:
        degree = c.shape[1] - 1
        companion = np.zeros((len(c), degree, degree))
        companion[:, np.arange(1, degree), np.arange(degree - 1)] = 1.0
        companion[:, :, -1] = -c[:, :-1] / c[:, -1:]
        found = np.linalg.eigvals(companion)
        real = np.where(np.abs(found.imag) < NEAR, found.real, np.nan)
        return np.where((real >= 0) & (real <= 1), real, np.nan)

    return run


def agreement(c: Any) -> float:
    """The share of polynomials of which both find as many roots; those with a root at an end do not count."""
    found, theirs = kernel(c)(), eigenvalues(c)()
    ours = np.bincount(found.row, minlength=len(c))
    at_end = np.nanmin(np.minimum(np.abs(theirs), np.abs(theirs - 1)), axis=1, initial=1.0) < NEAR
    same = ours == (~np.isnan(theirs)).sum(axis=1)
    return float(same[~at_end].mean())
