"""The memory and the processor time of a process and of all that it started, sampled.

Python workers are forked from one daemon and share most of their pages with it: of every Python process the
*proportional* set size is taken (a page shared by n processes counts 1/n in each), so that the sum counts each page
once. The JVM shares nothing worth speaking of and its page table is expensive to walk: its resident set size is taken.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

MB = 1 << 20


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
        self._root = psutil.Process(pid)
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
            jvm, python = tree(self._root, self.usage.processor)
            self.usage.add(jvm / MB, python / MB)
            self.usage.course.append((time.time(), sum(self.usage.processor.values())))
            self._stop.wait(max(0.0, self._every - (time.perf_counter() - begin)))


def tree(root: psutil.Process, processor: dict[int, float]) -> tuple[int, int]:
    """Bytes of the Java and of the other processes under (and with) ``root``; their processor seconds so far."""
    jvm = python = 0
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0, 0
    java: set[int] = set()
    for p in processes:
        try:
            if Path(p.exe()).name.startswith("java"):
                java.add(p.pid)
                if p.ppid() in java:
                    # Hadoop starts a chmod for every file it makes. Until its exec the child *is* the JVM's memory.
                    continue
                jvm += p.memory_info().rss
            else:
                full = p.memory_full_info()
                python += getattr(full, "pss", full.uss)
            spent = p.cpu_times()
            processor[p.pid] = spent.user + spent.system
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue  # it ended between the listing and the look
    return jvm, python
