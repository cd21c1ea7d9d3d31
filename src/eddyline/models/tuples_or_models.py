"""Which signals of a query are evaluated on tuples and which on models: a decision for each key, by cost.

On tuples a sample costs a step along it, and each instant of the result between two samples an interpolation and the
query's conditions. On models a sample costs its fit, each segment its equations, and each instant its share of what the
result shows. With r instants and 1/L segments a sample:

    tuples   SAMPLE + INSTANT·r            models   FIT + SHOWN·r + SEGMENT/L

r and L are counted, the prices are measured while the query runs (``models.phase_costs``). A key begins on tuples.
Where even endless segments would not pay nothing is ever fitted for it. Otherwise it is fitted for a *profile* of some
samples from time to time, which says what L is. When a key is reviewed follows from its own samples by count, so with
the same prices how they were cut into batches does not show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.kernels.interpolate import COLUMNS, INSTANTS, LIMIT, MODE, MODELS, SEEN, TUPLES
from eddyline.streamon.decision import Decision

AUTO, ALWAYS, NEVER = "auto", "always", "never"
OPTION: Final = "models"
SAMPLES_TO_FIRST_REVIEW: Final = 16  # samples of a key before its first review
PROFILED_SAMPLES: Final = 64  # samples that are fitted to see how long segments are: more are surer and cost more
# Samples between two reviews: as many as a key has had, within these. Fewer follow a change sooner and profile more.
MIN_SAMPLES_TO_REVIEW: Final = 4096
MAX_SAMPLES_TO_REVIEW: Final = 65536
CLEARLY_CHEAPER: Final = 0.8  # of the cost now: what another way must cost at most to be taken
KIND: Final = "tuples or models"


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds. These are typical ones of one value and one condition, for phases that were not measured yet."""

    sample: float = 6.0
    instant: float = 32.0
    fit: float = 110.0
    shown: float = 12.0
    segment: float = 700.0

    def tuples(self, instants: Float64s) -> Float64s:
        """What a sample costs on tuples, with so many instants a sample."""
        return self.sample + self.instant * instants

    def models(self, instants: Float64s, length: Float64s | float) -> Float64s:
        """What a sample costs on models, with so many samples a segment."""
        return self.fit + self.shown * instants + self.segment / np.maximum(length, 1.0)


def choice_option(options: Any) -> str:
    """``WITH (models = 'auto' | 'always' | 'never')``.

    >>> choice_option({}), choice_option({"models": "always"})
    ('auto', 'always')
    """
    given = options.get(OPTION, AUTO)
    if given not in (AUTO, ALWAYS, NEVER):
        raise JobError(f"the option '{OPTION}' is one of {AUTO}, {ALWAYS}, {NEVER}, not {given!r}.")
    return str(given)


class KeyChoice:
    """The way of each key, by its number. ``keys`` has the columns of ``kernels.interpolate``; of what was counted,
    ``rate`` are instants a sample, ``length`` samples a segment (0: not known)."""

    def __init__(self, width: int, prices: Prices | None = None, fixed: bool = False) -> None:
        self.prices, self.fixed = prices or Prices(), fixed  # prices are replaced when they were measured
        self.keys = np.zeros((0, COLUMNS), np.int64)
        self.last = np.zeros((0, width))
        self.rate, self.length = np.zeros(0), np.zeros(0)
        self.since = np.zeros((0, 3), np.int64)  # at the last review: samples, segments; whether it is a profile now
        self.suggested: dict[int, int] | None = None  # of a pinned query, the ways that were suggested last

    def grow(self, known: int) -> None:
        more = known - len(self.keys)
        if more <= 0:
            return
        fresh = np.zeros((more, COLUMNS), np.int64)
        fresh[:, LIMIT] = -1 if self.fixed else SAMPLES_TO_FIRST_REVIEW
        self.keys = np.concatenate([self.keys, fresh])
        self.last = np.concatenate([self.last, np.zeros((more, self.last.shape[1]))])
        self.rate, self.length = (np.concatenate([a, np.zeros(more)]) for a in (self.rate, self.length))
        self.since = np.concatenate([self.since, np.zeros((more, 3), np.int64)])

    def terms(self) -> Float64s:
        """What the walk along samples needs to review the usual case by itself: a key on tuples that would stay there
        with endless segments, too. Nothing is held then, and no row is walked along twice."""
        p = self.prices
        return np.array(
            [p.sample, p.instant, p.fit, p.shown, CLEARLY_CHEAPER, MIN_SAMPLES_TO_REVIEW, MAX_SAMPLES_TO_REVIEW],
            np.float64,
        )

    def review(self, held: Int64s, segments: Int64s, shown: Callable[[int], str]) -> list[Decision]:
        """Decide about keys that are held; ``segments`` are those each had so far, the open one included. The way of a
        key is in ``keys`` afterwards; what changed for good is a decision."""
        keys, since = self.keys, self.since
        samples = keys[held, SEEN] - since[held, 0]
        on_tuples = keys[held, MODE] == TUPLES
        walked = held[on_tuples]
        self.rate[walked] = keys[walked, INSTANTS] / np.maximum(samples[on_tuples], 1)
        fitted = held[~on_tuples]
        self.length[fitted] = samples[~on_tuples] / np.maximum((segments - since[held, 1])[~on_tuples], 1)
        rate = self.rate[held]
        tuples, models = self.prices.tuples(rate), self.prices.models(rate, self.length[held])
        # Tuples do not show the length of segments: a profile does, where endless ones would pay.
        profile = on_tuples & (self.prices.models(rate, np.inf) < CLEARLY_CHEAPER * tuples)
        profiled = since[held, 2] > 0
        stays = ~on_tuples & np.where(profiled, models < CLEARLY_CHEAPER * tuples, CLEARLY_CHEAPER * models < tuples)
        before = np.where(profiled, TUPLES, keys[held, MODE])
        keys[held, MODE] = np.where(profile | stays, MODELS, TUPLES)
        after = np.where(profile, TUPLES, keys[held, MODE])
        if self.suggested is not None:  # it is measured on; a key keeps its way
            keys[held, MODE] = np.where(profile, MODELS, before)
        seen = keys[held, SEEN]
        keys[held, LIMIT] = seen + np.where(
            profile, PROFILED_SAMPLES, np.clip(seen, MIN_SAMPLES_TO_REVIEW, MAX_SAMPLES_TO_REVIEW)
        )
        keys[held, INSTANTS] = 0
        since[held] = np.column_stack([keys[held, SEEN], segments, profile])
        found = []
        for way in (TUPLES, MODELS):
            changed = self._news(held[(before != way) & (after == way)], way)
            if len(changed):
                decision = self._decision(changed, way, shown)
                found.append(replace(decision, applied=self.suggested is None))
        return found

    def pin(self, pinned: bool) -> None:
        """Keep the way of each key, or let it change again."""
        self.suggested = {} if pinned else None

    def _news(self, changed: Int64s, way: int) -> Int64s:
        """Of a pinned query those keys for which the same was not suggested last."""
        if self.suggested is None:
            return changed
        news = [k for k in changed.tolist() if self.suggested.get(k) != way]
        self.suggested |= dict.fromkeys(news, way)
        return np.array(news, np.int64)

    def _decision(self, changed: Int64s, way: int, shown: Callable[[int], str]) -> Decision:
        names = ("tuples", "models")
        tuples = float(self.prices.tuples(self.rate[changed]).mean())
        models = float(self.prices.models(self.rate[changed], self.length[changed]).mean())
        first = shown(int(changed[0]))
        which = first if len(changed) == 1 else f"{len(changed)} keys, the first {first}"
        because = (
            "segments of {key} hold {length:.3g} samples, and {rate:.3g} instants are evaluated for each sample: "
            "models take {models:.0f} ns a sample, tuples {tuples:.0f}"
        )
        evidence = {
            "key": which, "keys": len(changed), "length": float(self.length[changed].mean()),
            "rate": float(self.rate[changed].mean()), "tuples": tuples, "models": models,
        }  # fmt: skip
        gain = tuples / models if way == MODELS else models / tuples
        return Decision(KIND, names[1 - way], names[way], because, evidence, expected_gain=gain)

    def many(self) -> tuple[int, int]:
        """Keys on tuples and keys on models; those in a profile are on tuples."""
        seen = self.keys[:, SEEN] > 0
        models = seen & (self.keys[:, MODE] == MODELS) & (self.since[:, 2] == 0)
        return int(seen.sum() - models.sum()), int(models.sum())

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for a in (self.keys, self.last, self.rate, self.length, self.since))

    def state(self) -> dict[str, Any]:
        return {
            "keys": self.keys, "last": self.last, "rate": self.rate, "length": self.length, "since": self.since,
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.keys, self.last, self.since = (np.array(state[n]) for n in ("keys", "last", "since"))
        self.rate, self.length = np.array(state["rate"]), np.array(state["length"])
