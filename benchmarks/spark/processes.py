"""The memory and the processor time of a process and of all that it started, sampled.

Python workers are forked from one daemon and share most of their pages with it: of every Python process the
*proportional* set size is taken (a page shared by n processes counts 1/n in each), so that the sum counts each page
once. The JVM shares nothing worth speaking of: its resident set size is taken.

Watching must not slow what is watched. Resident sets and processor times are cheap and read ten times a second; which
processes there are, and how much of the Python processes' resident sets is shared (their page tables must be walked for
it), is looked up every second or so, and what was shared then is subtracted until the next time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

MB = 1 << 20
LOOK_UP = 8  # samples between two looks at which processes there are
GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)  # it ended between two looks


@dataclass(slots=True)
class Usage:
    """The largest sum of memory seen and its parts at that moment, in MB; processor seconds by process, and as they
    added up in the course of time."""

    peak: float = 0.0
    jvm: float = 0.0
    python: float = 0.0
    samples: int = 0
    processor: dict[int, float] = field(default_factory=dict)
    course: list[tuple[float, float]] = field(default_factory=list)  # seconds since the epoch, processor seconds

    def add(self, jvm: float, python: float) -> None:
        """
        >>> u = Usage()
        >>> for jvm, python in [(100, 50), (90, 80), (120, 30)]: u.add(jvm, python)
        >>> u.peak, u.jvm, u.python
        (170, 90, 80)
        """
        self.samples += 1
        if jvm + python > self.peak:
            self.peak, self.jvm, self.python = jvm + python, jvm, python

    def spent(self, begin: float, end: float) -> float:
        """Processor seconds between two moments, as exactly as the samples are dense.

        >>> Usage(course=[(10.0, 1.0), (11.0, 3.0), (12.0, 4.0)]).spent(10.5, 12.0)
        2.0
        """
        times, seconds = zip(*self.course, strict=True)
        at_begin, at_end = np.interp([begin, end], times, seconds)
        return float(at_end - at_begin)

    def to_json(self) -> dict[str, float]:
        used = sum(self.processor.values())
        return {
            "peak": self.peak,
            "jvm": self.jvm,
            "python": self.python,
            "samples": self.samples,
            "processor_seconds": used,
        }


class Sampler:
    """Samples from ``start`` to ``stop``."""

    def __init__(self, pid: int, every: float = 0.1) -> None:
        self._tree = Tree(psutil.Process(pid))
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.usage = Usage()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            begin = time.perf_counter()
            if self.usage.samples % LOOK_UP == 0:
                self._tree.look_up()
            jvm, python = self._tree.sample(self.usage.processor)
            self.usage.add(jvm / MB, python / MB)
            self.usage.course.append((time.time(), sum(self.usage.processor.values())))
            self._stop.wait(max(0.0, self._every - (time.perf_counter() - begin)))


class Tree:
    """A process and those that it started."""

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.java: list[psutil.Process] = []
        self.others: list[psutil.Process] = []
        self.shared: dict[int, int] = {}  # bytes that a process has together with others, and that they count

    def look_up(self) -> None:
        self.java, self.others = [], []
        for p in _all(self.root):
            try:
                if not Path(p.exe()).name.startswith("java"):
                    self.others.append(p)
                    full = p.memory_full_info()
                    self.shared[p.pid] = full.rss - getattr(full, "pss", full.rss)
                elif p.ppid() not in {j.pid for j in self.java}:
                    # Hadoop starts a chmod for every file it makes; until its exec such a child *is* the JVM's memory.
                    self.java.append(p)
            except GONE:
                continue

    def sample(self, processor: dict[int, float]) -> tuple[int, int]:
        """Bytes of the Java and of the other processes; their processor seconds so far."""
        sums = [0, 0]
        for i, processes in enumerate((self.java, self.others)):
            for p in processes:
                try:
                    with p.oneshot():
                        sums[i] += p.memory_info().rss - self.shared.get(p.pid, 0)
                        spent = p.cpu_times()
                    processor[p.pid] = spent.user + spent.system
                except GONE:
                    continue
        return sums[0], sums[1]


def _all(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except GONE:
        return []
