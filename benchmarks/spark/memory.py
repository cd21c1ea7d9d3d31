"""The resident memory of a process and all that it started, sampled.

Python workers are forked from one daemon and share most of their pages with it: of every Python process the
*proportional* set size is taken (a page shared by n processes counts 1/n in each), so that the sum counts each page
once. The JVM shares nothing worth speaking of and its page table is expensive to walk: its resident set size is taken.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MB = 1 << 20


@dataclass(slots=True)
class Peak:
    """The largest sum seen, and its parts at that moment, in MB."""

    total: float = 0.0
    jvm: float = 0.0
    python: float = 0.0
    samples: int = 0
    highest: dict[str, float] = field(default_factory=dict)  # of each part by itself

    def add(self, jvm: float, python: float) -> None:
        """
        >>> p = Peak()
        >>> for jvm, python in [(100, 50), (90, 80), (120, 30)]: p.add(jvm, python)
        >>> p.total, p.jvm, p.python, p.highest
        (170, 90, 80, {'jvm': 120, 'python': 80})
        """
        self.samples += 1
        self.highest = {
            "jvm": max(jvm, self.highest.get("jvm", 0)),
            "python": max(python, self.highest.get("python", 0)),
        }
        if jvm + python > self.total:
            self.total, self.jvm, self.python = jvm + python, jvm, python

    def to_json(self) -> dict[str, float]:
        parts = {f"highest_{n}": v for n, v in self.highest.items()}
        return {"peak": self.total, "jvm": self.jvm, "python": self.python, "samples": self.samples, **parts}


class Sampler:
    """``with Sampler(pid) as peak: …`` samples until the block ends."""

    def __init__(self, pid: int, every: float = 0.1) -> None:
        self._root = psutil.Process(pid)
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = Peak()

    def __enter__(self) -> Peak:
        self._thread.start()
        return self.peak

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            begin = time.perf_counter()
            jvm, python = tree(self._root)
            self.peak.add(jvm / MB, python / MB)
            self._stop.wait(max(0.0, self._every - (time.perf_counter() - begin)))


def tree(root: psutil.Process) -> tuple[int, int]:
    """Bytes of the Java and of the other processes under (and with) ``root``."""
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
                # Hadoop starts a chmod for every file it makes. Until its exec the child *is* the JVM's memory.
                if p.ppid() not in java:
                    jvm += p.memory_info().rss
            else:
                full = p.memory_full_info()
                python += getattr(full, "pss", full.uss)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue  # it ended between the listing and the look
    return jvm, python
