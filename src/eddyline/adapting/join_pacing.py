"""When the elements of an adaptive join are profiled: profiling runs, and quiet runs between them (thesis 5.5.6).

Elements are applied in *runs*. In a profiling run some elements are profiled for the policies. In a quiet run none is
profiled; only probes are counted, which costs nothing and shows most changes of the data. While plans change, both are
short; while they do not, quiet runs grow. The budget for profiling runs is a small share of the work so far, so a
short join has none; a run that changes the plan adds a part of the savings to the budget.

S. Babu: Adaptive Query Processing in Data Stream Management Systems, Stanford 2005, section 5.5.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.adaptive.joins.probe_monitor import CHECK_ELEMENTS, RAREST_CHECK_ELEMENTS, Done, ProbeMonitor
from eddyline.adaptive.joins.profiling_budget import ProfilingBudget
from eddyline.core.time import Clock

# Elements of a profiling run, and of a quiet run at first and at most: longer quiet runs spend less on profiling and
# find better plans later.
PROFILING_RUN_ELEMENTS, QUIET_RUN_ELEMENTS, LONGEST_QUIET_RUN_ELEMENTS = 4096, 1 << 16, 1 << 20
QUIET_RUN_GROWTH = 4  # times as long as the one before is a quiet run, if the profiling run between showed nothing
# Profiling runs in a row: more find a plan that fits sooner, and cost more where an alarm was false.
PROFILING_RUNS_AFTER_ALARM, PROFILING_RUNS_AFTER_NEW_ORDER = 3, 2
QUIET_RUN_SECONDS = 2.0  # after which a quiet run ends whatever it has seen: the thesis's re-optimisation interval
ACCESSES_PER_PROBE = 2  # of most joins: a probe finds about one row
CHECKS_PER_QUIET_RUN = 8  # of the probes: more see a change sooner and cost time
MAX_LEAVING_PER_ARRIVAL = 1.0  # after a gap many leave at once, which does not predict the next elements


@dataclass(frozen=True, slots=True)
class Pace:
    """Elements of a profiling run, and of a quiet run at first and at most. ``longest_quiet_run`` 0: there are only
    profiling runs."""

    profiling_run: int = PROFILING_RUN_ELEMENTS
    quiet_run: int = QUIET_RUN_ELEMENTS
    longest_quiet_run: int = LONGEST_QUIET_RUN_ELEMENTS

    @property
    def always_profiles(self) -> bool:
        return self.longest_quiet_run == 0


class RunPacing:
    """Which kind of run goes on, how many elements it still has, and what follows it.

    >>> from eddyline.testing.clock import ManualClock
    >>> pacing = RunPacing(Pace(), inputs=3, clock=ManualClock())
    >>> pacing.in_profiling_run, pacing.quiet_run  # nothing has been earned yet
    (False, 65536)
    >>> pacing.account(arrived=400_000, elements=800_000, accesses=1_600_000, work=1_600_000, profiling=0)
    >>> pacing.run_over(changed=False, content=True)
    >>> pacing.in_profiling_run, pacing.elements_left
    (True, 4096)
    """

    def __init__(self, pace: Pace, inputs: int, clock: Clock) -> None:
        self.pace, self.clock = pace, clock
        self.budget = ProfilingBudget(inputs)
        # A join with quiet runs begins with one: nothing is known yet of what profiling could gain.
        self.in_profiling_run = pace.always_profiles or self.budget.affords_profiling_run()
        self.quiet_run = pace.quiet_run  # elements of the next one
        self.elements_left = pace.profiling_run  # of the run that goes on
        self.profiling_runs_due = 1  # windows are empty at first: what is seen then is not worth a second run
        self.elements_per_arrival = 1.0  # elements that came or left for each that came, of late
        self.start_over()

    def start_over(self) -> None:
        """Forget the run that was going on, but not what was learned."""
        self.began = self.clock.nanoseconds()
        self.probe_monitor = ProbeMonitor()
        self.accesses_per_element = 0.0  # of late
        self.waits_for_budget = False  # a profiling run is due, and begins as soon as it is paid for
        self.profiling_accesses = 0  # of the profiling run that goes on: those made only to learn

    # ── a run that goes on ────────────────────────────────────────────────────────────────────────────────────────

    def begin_quiet(self, rows: Sequence[int], accesses: int | None = None) -> tuple[int, int | None]:
        """After how many elements, and after how many probes, the data are to be checked for a change. ``rows`` are
        those of the windows; a check after so many ``accesses`` was asked for."""
        elements, probes = self.check_elements, self.probe_monitor.most(self.elements_per_arrival * self.check_elements)
        if not self.pace.always_profiles and not self.budget.affords_profiling_run(alarmed=True):
            # An alarm before that could not be followed by a profiling run.
            elements, probes = self.elements_left, max(CHECK_ELEMENTS, self.budget.missing(alarmed=True))
        if accesses is not None:
            most = max(CHECK_ELEMENTS, accesses // ACCESSES_PER_PROBE)
            probes = most if probes is None else min(probes, most)
        self.probe_monitor.begin(rows)
        return min(self.elements_left, elements), probes

    def account(self, arrived: int, elements: int, accesses: int, work: int, profiling: int) -> None:
        """``arrived`` elements have come, ``elements`` came or left; that took ``accesses`` of indexes, ``work`` with
        those of caches, and ``profiling`` beside them to learn."""
        self.budget.earn(work, elements)
        self.profiling_accesses += profiling
        self.elements_left -= arrived
        if elements:
            if arrived:
                self.elements_per_arrival = min(1.0 + MAX_LEAVING_PER_ARRIVAL, elements / arrived)
            self.accesses_per_element = accesses / elements

    def alarmed(self, done: Done, rows: Sequence[int]) -> bool:
        """Whether the probes of a quiet run show that the data have changed: then several profiling runs are due."""
        if not self.probe_monitor.moved(done, rows, self.check_elements):
            return False
        self.quiet_run, self.profiling_runs_due = self.pace.quiet_run, PROFILING_RUNS_AFTER_ALARM
        return True

    @property
    def late(self) -> bool:
        return self.clock.nanoseconds() - self.began > QUIET_RUN_SECONDS * 1e9

    @property
    def check_elements(self) -> int:
        """The longer nothing has changed, the longer a change may go unseen: a small share of the quiet run."""
        return min(RAREST_CHECK_ELEMENTS, max(CHECK_ELEMENTS, self.quiet_run // CHECKS_PER_QUIET_RUN))

    def plan_changed(self) -> None:
        """The plan was changed amid a quiet run: what elements take has to be seen anew."""
        self.quiet_run = self.pace.quiet_run
        self.probe_monitor.run_over()
        self.probe_monitor.profiling_run_over(changed=True)

    # ── between two runs ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def affords_profiling_run(self) -> bool:
        return self.pace.always_profiles or self.budget.affords_profiling_run(self.profiling_runs_due > 1)

    @property
    def goes_on(self) -> bool:
        """Whether the run has elements left and nothing waits for its end."""
        return self.elements_left > 0 and not (self.waits_for_budget and self.affords_profiling_run)

    @property
    def routine(self) -> bool:
        """Whether profiling runs are a matter of routine: nothing has happened."""
        return not self.pace.always_profiles and self.profiling_runs_due == 0

    def wait_for_budget(self) -> None:
        """A quiet run is over and a profiling run is not paid for: go on until it is."""
        self.waits_for_budget = True
        self.began = self.clock.nanoseconds()
        earned = (self.accesses_per_element + 1) * self.elements_per_arrival  # for each element that comes
        self.elements_left = int(min(self.quiet_run, max(self.check_elements, self.budget.missing() / earned)))

    def run_over(self, changed: bool, content: bool, saved: float = 0.0) -> None:
        """Choose the next run. ``changed``: the plan was changed by more than a little, and would have ``saved`` so
        many accesses so far; ``content``: no policy expects much of another order."""
        self.began, self.waits_for_budget = self.clock.nanoseconds(), False
        self.probe_monitor.run_over()
        if self.pace.always_profiles:
            self.elements_left = self.pace.profiling_run
            return
        if changed:
            self.quiet_run = self.pace.quiet_run
            self.profiling_runs_due = max(self.profiling_runs_due, PROFILING_RUNS_AFTER_NEW_ORDER)
        if changed or self.in_profiling_run:
            self.probe_monitor.profiling_run_over(changed)
        if self.in_profiling_run:
            self.budget.spend(self.profiling_accesses)
            if changed:
                self.budget.win(saved)
            self.profiling_accesses = 0
            # No policy has found a better order in this run: further ones would find none either.
            self.profiling_runs_due = 0 if content else max(0, self.profiling_runs_due - 1)
            self.in_profiling_run = self.profiling_runs_due > 0
        else:
            self.quiet_run = min(QUIET_RUN_GROWTH * self.quiet_run, self.pace.longest_quiet_run)
            self.in_profiling_run = True
        self.in_profiling_run = self.in_profiling_run and self.affords_profiling_run
        self.elements_left = self.pace.profiling_run if self.in_profiling_run else self.quiet_run

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> list[int]:
        return [int(self.in_profiling_run), self.elements_left, self.quiet_run, self.profiling_runs_due]

    def load(self, run: Sequence[int] | None, budget: float) -> None:
        """``run`` None: what was saved belongs to other policies."""
        if run is not None:
            profiling, self.elements_left, self.quiet_run, self.profiling_runs_due = (int(x) for x in run)
            self.in_profiling_run, self.budget.held = bool(profiling), budget
        if self.pace.always_profiles:
            self.in_profiling_run = True
            self.elements_left = max(1, min(self.elements_left, self.pace.profiling_run))
