"""QuantileSlack: the slack that keeps a given share of the rows, found from the rows themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from eddyline.adaptive.disorder.lateness_window import LatenessWindow
from eddyline.core.delta import Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter, check_all
from eddyline.streamon.wording import Evidence, sentence

DEFAULT_TARGET: Final = 99.9  # percent of the rows that are kept, unless the query sets another target

PARAMETERS: Final = (
    Parameter("target", 0, 99.9999, "percent of the rows to keep: more waits longer and loses less"),
    Parameter("interval", 8, 100_000, "rows between two choices: fewer follow changes sooner and cost more", True),
    Parameter("window", 64, 1_000_000, "rows whose lateness is remembered: more are steadier and slower", True),
    Parameter("gain", 0, 1000, "how strongly past misses of the target are made up for: larger sways more"),
    Parameter("horizon", 1000, 10_000_000, "rows for which a miss is made up for: more hold the share closer", True),
    Parameter("shrink", 0, 1, "largest share by which one choice lowers the slack: smaller is safer against bursts"),
    Parameter("jump", 1, 1_000_000, "times the slack that a row may be ahead before it is doubted: more believes more"),
)
AIMED_SHARE: Final = 0.9  # of the share that may be late, which the slack aims at: bursts come on top
SAFETY_FACTOR: Final = 2.0  # times the largest lateness: the slack where the window has too few rows for a quantile
FIRST_SAFETY_FACTOR: Final = 10.0  # the same at the start; falls to SAFETY_FACTOR while half of the window fills
TRUSTED_ROWS: Final = 256  # beyond the quantile; with fewer it is not trusted, because late rows come in bursts
ROWS_PER_STRAY: Final = 2048  # for each of them one row that lies far behind is not counted as the largest lateness
MAX_REMEMBERED_FACTOR: Final = 4.0  # times the slack: a greater lateness is remembered as this
FARTHEST: Final = 1 << 62  # ticks: no two times are farther apart
MIN_CHANGE: Final = 0.05  # of the slack: it is not changed by less


class QuantileSlack:
    """The smallest slack that keeps ``target`` percent of the rows, estimated from the last rows and corrected by what
    was really lost.

    Were the stream stationary, the slack would be the quantile of lateness at the target. Streams are not: late rows
    come in bursts, and a slack that grows helps only later rows, because the watermark does not go back. Therefore:

    - *The level is controlled.* With α the share that may be late and E the rows lost beyond α (old ones count less),
      the level is 1 − (α − gain · E / horizon): a stream that lost too much gets a slack that loses less, and the other
      way round. In the long run the share approaches α whatever the distribution is (as in adaptive conformal
      inference).
    - *Few rows are no evidence.* Where fewer than 256 rows of the window lie beyond the quantile, the slack is between
      the quantile and twice the largest lateness, in proportion. At the very start, when next to nothing was seen, it
      is ten times the largest lateness, and comes down to twice the largest while half of the window is filled.
    - The slack grows at once and shrinks in steps.

    Parameters
    ----------
    target
        Percent of the rows to keep. More waits longer and loses less.
    interval
        Rows between two choices. Fewer follow a change sooner and cost more.
    window
        Rows whose lateness is remembered. More are steadier and slower.
    gain, horizon
        How strongly, and for how many rows, misses of the target are made up for.
    shrink
        Largest share by which one choice lowers the slack.
    jump
        How many times the slack a row may be ahead of all others before it is doubted.

    A stream whose rows come up to 50 ticks late, then up to 200, then up to 50 again:

    >>> random = np.random.default_rng(7)
    >>> policy = QuantileSlack(target=95)
    >>> for most in (50, 200, 50):
    ...     for _ in range(400):
    ...         lateness = random.integers(0, most, policy.interval)
    ...         policy.observe(lateness, int((lateness > policy.slack).sum()), 1)
    ...         _ = policy.decide()
    ...     print(most, policy.slack, f"{policy.late / policy.rows:.1%}")
    50 47 3.9%
    200 189 4.4%
    50 47 4.3%

    I. Gibbs, E. Candès: Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021. U. Srivastava, J. Widom:
    Flexible Time Management in Data Stream Systems, PODS 2004 (skew bounds; thesis, section 6.1.4).
    """

    name = "auto"
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(
        self,
        *,
        target: float = DEFAULT_TARGET,
        interval: int = 128,
        window: int = 8192,
        gain: float = 40.0,
        horizon: int = 400_000,
        shrink: float = 0.1,
        jump: float = 20.0,
        unit: str = "ticks",
    ) -> None:
        given = {"target": target, "interval": interval, "window": window, "gain": gain, "horizon": horizon,
                 "shrink": shrink, "jump": jump}  # fmt: skip
        self.given = check_all(self.parameters, self.name, given)
        self.allowed = 1.0 - self.given["target"] / 100.0  # the share that may be late
        self.interval = int(self.given["interval"])
        self.unit = unit
        self.window = LatenessWindow(int(self.given["window"]))
        self.slack = 0
        self.rows = self.late = 0  # judged so far, and late among them
        self.excess = 0.0  # E
        self._recent = (0, 0)  # rows and late rows since the last decision
        self._advance = 0  # the largest step since the last choice
        self._advances: deque[int] = deque(maxlen=max(1, self.window.values.size // self.interval))
        self._new = (0, 0)  # rows and late rows since the last choice

    @property
    def reach(self) -> int:
        if not self._advances:
            return FARTHEST
        return int(min(FARTHEST, self.given["jump"] * (self.slack + max(self._advances) + 1)))

    def observe(self, lateness: Int64s, late: int, advance: int) -> None:
        # A lateness beyond belief is remembered as the largest that is believed: one row stamped in another century
        # must not set the slack, and a stream that really lags comes there within a few choices.
        if self._advances:
            lateness = np.minimum(lateness, int(MAX_REMEMBERED_FACTOR * (self.slack + max(self._advances) + 1)))
        self.window.push(lateness)
        self.rows += len(lateness)
        self.late += late
        self._new = self._new[0] + len(lateness), self._new[1] + late
        self._advance = max(self._advance, advance)

    def decide(self, now: int | None = None) -> Decision | None:
        rows, late = self._new
        self._new = (0, 0)
        self._advances.append(self._advance)
        self._advance = 0
        self._recent = self._recent[0] + rows, self._recent[1] + late
        aim, horizon = self.allowed * AIMED_SHARE, self.given["horizon"]
        beyond = 0.0
        if 2 * self.rows > len(self.window.values):
            self.excess = self.excess * max(0.0, 1.0 - rows / horizon) + late - aim * rows
            beyond = (aim - self.given["gain"] * self.excess / horizon) * len(self.window)
        wanted = self._wanted(beyond)
        if wanted < self.slack:
            wanted = max(wanted, int(self.slack * (1.0 - self.given["shrink"])))
        if abs(wanted - self.slack) <= MIN_CHANGE * self.slack:
            return None
        before, self.slack = self.slack, wanted
        recent, self._recent = self._recent, (0, 0)
        return Decision(
            "slack",
            before,
            wanted,
            "slack",
            {
                "kept": self.given["target"],
                "late": recent[1],
                "rows": recent[0],
                "late_of_all": self.late,
                "rows_of_all": self.rows,
                "largest_lateness": self.window.exceeded_by(0),
                "remembered": len(self.window),
                "unit": self.unit,
            },
            {"kept": "%", "before": self.unit, "after": self.unit, "largest_lateness": self.unit},
            time=now,
        )

    def _wanted(self, beyond: float) -> int:
        """The slack that so many rows of the window exceed, or more where that says little."""
        young = max(0.0, 1.0 - 2 * self.rows / len(self.window.values))
        largest = self.window.exceeded_by(1 + len(self.window) // ROWS_PER_STRAY)
        safe = (SAFETY_FACTOR + young * (FIRST_SAFETY_FACTOR - SAFETY_FACTOR)) * largest
        if beyond < 1.0:
            return int(safe)
        trust = min(1.0, beyond / TRUSTED_ROWS)
        return int(trust * self.window.exceeded_by(int(beyond)) + (1.0 - trust) * safe)

    def statistics(self) -> Mapping[str, Any]:
        return {"slack": self.slack, "target": self.given["target"], "rows": self.rows, "late": self.late}

    def state(self) -> dict[str, Any]:
        return {
            "slack": self.slack,
            "window": self.window.state(),
            "numbers": [self.rows, self.late, *self._recent, self._advance, *self._new],
            "excess": self.excess,
            "advances": list(self._advances),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.slack = int(state["slack"])
        self.window.load(state["window"])
        self.rows, self.late, recent, late, self._advance, new, new_late = (int(n) for n in state["numbers"])
        self._recent, self._new = (recent, late), (new, new_late)
        self.excess = float(state["excess"])
        self._advances.clear()
        self._advances.extend(int(a) for a in state["advances"])


@sentence("slack")
def _because(evidence: Evidence) -> str:
    share = 100.0 * evidence["late"] / max(1, evidence["rows"])
    ticks, unit = evidence["largest_lateness"], evidence["unit"]
    largest = f"{ticks / 1e6:,.6g} s" if unit == "µs" else f"{ticks:,} {unit}"
    return (
        f"{evidence['late']:,} of {evidence['rows']:,} rows since the last change were late ({share:.2g} %), and"
        f" {100.0 - evidence['kept']:.4g} % may be; of the last {evidence['remembered']:,} rows the slowest came"
        f" {largest} behind"
    )
