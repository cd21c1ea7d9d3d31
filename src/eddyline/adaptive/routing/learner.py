"""The base of policies that learn by content: candidates, the matrices CA, In and Out, a tuple's selectivities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.routing.averages import CountedAverages, ExponentialAverages
from eddyline.adaptive.routing.base import Router, expected_cost, ranks
from eddyline.adaptive.routing.candidates import Candidates
from eddyline.adaptive.routing.contest import Contest
from eddyline.adaptive.routing.policy import Classifier, Outputs
from eddyline.adaptive.routing.samples import Samples
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.coins import Coins
from eddyline.streamon.decision import Decision
from eddyline.streamon.wording import sentence

Averages = CountedAverages | ExponentialAverages
NONE = -1
_NO_CLASSES: Int64s = np.empty((0, 0), np.int64)

CLASSIFIED = "classifiers by gain ratio"  # the name of a sentence


@sentence(CLASSIFIED)
def _classified(evidence: Mapping[str, Any]) -> str:
    pairs = list(zip(evidence["operators"], evidence["attributes"], strict=True))
    found = [f"{attribute} predicts what O{o + 1} passes" for o, attribute in pairs if attribute is not None]
    lost = [f"no attribute predicts what O{o + 1} passes any more" for o, attribute in pairs if attribute is None]
    return "; ".join(found + lost)


class Learner(Router):
    """CA[ℓ] is the number of the candidate by which operator ℓ is routed, −1 for none (then W[ℓ] is what counts)."""

    def __init__(self, setting: Setting, candidates: Candidates, seed: int, cost_aware: bool) -> None:
        super().__init__(setting)
        self.seed, self.cost_aware = seed, cost_aware
        self.d = setting.d
        self.candidates = candidates
        self.CA: Int64s = np.full(self.n, NONE, np.int64)
        self.samples = Samples(self.n, len(candidates), self.d)
        self.coins = Coins(seed)
        self.contest = Contest()
        self.classes: Int64s = _NO_CLASSES  # of the sub-batch routed last

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        return tuple(None if c == NONE else self.candidates[int(c)].attributes for c in self.CA)

    @property
    def classifier_names(self) -> tuple[str | None, ...]:
        return self._names(self.CA)

    def use_classifiers(self, names: tuple[str | None, ...]) -> None:
        """What was learned by class under them counts again; what they gain has to be found out anew."""
        known = {self._name(c): c for c in range(len(self.candidates))}
        self.CA = np.array([NONE if n is None else known[n] for n in names], np.int64)
        self.contest.clear()

    @property
    def prices(self) -> Float64s | None:
        """What ranks are divided by; None where costs are ignored."""
        return self.times.averages() if self.cost_aware else None

    def _columns(self, CA: Int64s) -> dict[int, Int64s]:
        """The classes of the sub-batch by each candidate in use."""
        return {int(c): self.candidates.column(self.classes, int(c)) for c in np.unique(CA[CA != NONE])}

    def _selectivities(self, CA: Int64s, S: Float64s, W: Float64s, columns: Mapping[int, Int64s]) -> Float64s:
        """σ of section 4.2 for each tuple of the sub-batch and operator: S[ℓ, class] or W[ℓ]."""
        sigma = np.broadcast_to(W, (len(self.classes), self.n)).copy()
        for operator in np.flatnonzero(CA != NONE):
            column = columns[int(CA[operator])]
            sigma[:, operator] = np.where(column >= 0, S[operator, column], W[operator])
        return sigma

    def _expected_gain(self, before: Int64s, after: Int64s, S: Float64s, W: Float64s) -> float:
        """What the tuples of the last sub-batch would cost with the classifiers before, over what they would cost with
        those after, if the new selectivities are true and operators independent of each other within a class.
        """
        columns = self._columns(np.concatenate([before, after]))
        true = self._selectivities(after, S, W, columns)
        blind = self._selectivities(np.where(before == after, after, NONE), S, W, columns)
        prices = self.times.averages()
        costs = [expected_cost(true, self._orders(ranks(s, self.prices)), prices) for s in (blind, true)]
        return costs[0] / costs[1] if costs[1] > 0 else 1.0

    def _cells(self, asked: Bools, columns: Mapping[int, Int64s]) -> tuple[Int64s, Int64s, Int64s]:
        """Tuples shown to operators that have a classifier: rows, operators, and cells of S."""
        rows, operators, cells = [], [], []
        for operator in np.flatnonzero(self.CA != NONE):
            column = columns[int(self.CA[operator])]
            shown = np.flatnonzero(asked[:, operator] & (column >= 0))
            rows.append(shown)
            operators.append(np.full(len(shown), operator))
            cells.append(operator * self.d + column[shown])
        if not rows:
            return _NO_CLASSES.ravel(), _NO_CLASSES.ravel(), _NO_CLASSES.ravel()
        return np.concatenate(rows), np.concatenate(operators), np.concatenate(cells)

    def _average(self, W: Averages, S: Averages, outputs: Outputs) -> tuple[Int64s, Int64s, Int64s]:
        """Add what operators made of the sub-batch to what is known of them, and of them by class: see ``_cells``."""
        asked = outputs >= 0
        rows, operators = np.nonzero(asked)
        W.add(operators, outputs[rows, operators].astype(np.float64))
        rows, operators, cells = self._cells(asked, self._columns(self.CA))
        S.add(cells, outputs[rows, operators].astype(np.float64))
        return rows, operators, cells

    def _name(self, candidate: int) -> str | None:
        """``'light'``, ``'light ÷4'`` for classes of four neighbouring ranges, ``'light, hour'`` for a set."""
        if candidate == NONE:
            return None
        found = self.candidates[candidate]
        name = self.setting.names(found.attributes)
        return name if found.width == 1 else f"{name} ÷{found.width}"

    def _names(self, CA: Int64s) -> tuple[str | None, ...]:
        return tuple(self._name(int(c)) for c in CA)

    def _decision(
        self,
        now: int | None,
        kind: str,
        before: tuple[str | None, ...],
        after: tuple[str | None, ...],
        because: str,
        evidence: Mapping[str, Any],
        *,
        expected: float | None = None,
        measured: float | None = None,
    ) -> Decision:
        return Decision(
            kind,
            before,
            after,
            because,
            evidence,
            dict.fromkeys(("with", "without", "error"), self.setting.pipeline.unit),
            expected_gain=expected,
            measured_gain=measured,
            operator=self.setting.pipeline.operator,
            time=now,
        )

    def _table(self, S: Float64s, W: Float64s) -> dict[str, Any]:
        """For explain and the heat map: W, and for each classified operator its classifier and selectivities by class
        (None for classes that no sample tuple had).
        """
        table: dict[str, Any] = {"selectivity": tuple(W.tolist()), "classifiers": {}}
        for operator in np.flatnonzero(self.CA != NONE).tolist():
            candidate = int(self.CA[operator])
            seen = self.samples.tuples_in[operator, candidate] > 0
            found = self.samples.correlations(operator)
            table["classifiers"][operator] = {
                "attribute": self._name(candidate),
                "gain_ratio": float(found.corrected[candidate]),
                "selectivity_by_class": [
                    float(s) if there else None for s, there in zip(S[operator], seen, strict=True)
                ],
            }
        return table

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "CA": self.CA.copy(),
            "samples": self.samples.state(),
            "coins": self.coins.state(),
            "contest": self.contest.state(),
            "candidates": self.candidates.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.CA = np.array(state["CA"], np.int64)
        self.samples.load(state["samples"])
        self.coins.load(state["coins"])
        self.contest.load(state["contest"])
        self.candidates.load(state["candidates"])
