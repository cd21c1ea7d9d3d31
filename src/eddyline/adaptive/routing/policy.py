"""The protocol between a policy that routes tuples by content and the executor that evaluates the operators.

An executor works on sub-batches with selection vectors and follows this protocol, per sub-batch:

1. ``classes``: for every tuple and classifier attribute the number of the partition that its value falls in
   (``partition`` computes it), −1 where there is none. ``orders = policy.route(classes)``: a row per tuple, each a
   permutation of the operators.
2. Evaluate the operator at each position for the tuples that are still alive and have it there. Tuples need not keep
   step: an executor may, again and again, take the operator for which most tuples wait and evaluate it for all of them
   in one call, as long as each tuple keeps its own order. A tuple is out as soon as one operator drops it.
3. ``policy.processed(outputs, seconds)``: what came out of each operator for each tuple that it was shown.
4. ``policy.decide(now)``. A decision is in force at once: the next ``route`` applies it.

Profiling here costs no evaluation beyond those of a route: a profiled tuple takes the profiled operator *first*, and
then goes on as any other. So no operator is asked about a tuple twice, nor about one that is out.

*Out* is a number of tuples: 0 if the operator drops the tuple (FALSE or NULL), 1 if a filter passes it or fails for it
(the tuple lives on until another filter drops it), more for an operator that multiplies tuples; −1 if not asked. What
is asked about the copies of a tuple is known from the tuple: an operator that was asked counts once in its cost.

A policy is a pure function of its parameters, its seed and these calls. It reads no clock; ``now`` is only copied into
the decision. Its state is bounded by its parameters and can be taken elsewhere by ``state`` and ``load``, between
sub-batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter

Outputs = npt.NDArray[np.int8] | npt.NDArray[np.int64]
Classifier = tuple[int, ...] | None


class RoutingPolicy(Protocol):
    """Statistics in, routes out."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]

    @property
    def setting(self) -> Setting: ...

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        """For each operator the attributes by which it is routed now, the paper's CA; None for none."""

    @property
    def classifier_names(self) -> tuple[str | None, ...]:
        """The same as decisions name them, the one on trial included."""

    def use_classifiers(self, names: tuple[str | None, ...]) -> None:
        """Route by these from now on, because the user undoes a decision."""

    def route(self, classes: Int64s) -> Int64s:
        """The order of operators for each tuple of a sub-batch: rows × operators."""

    def processed(self, outputs: Outputs, seconds: Float64s) -> None:
        """What became of the tuples routed last: tuples out by row and operator, −1 where not asked; and the seconds
        spent per tuple asked, by operator (NaN for one that was asked about none).
        """

    def decide(self, now: int | None = None) -> Decision | None:
        """Take up or give up classifiers if the statistics say so."""

    def statistics(self) -> Mapping[str, Any]:
        """What routes rest on, for people."""

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays: with them another instance with the same parameters goes on identically."""

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``."""
