"""How much of a core the process for followers may take, so that a query does not run slower for being followed.

Where cores are few, whatever runs beside the engine slows it down: cores share caches and memory, and two of them are
often one. A lower priority does not help against that; only doing less does. So the share follows what the engine
leaves: much while the server has little to do, little while it works, and enough where followers would otherwise miss
rows. The measure is the CPU of the server's process and not how long the engine's thread waits: while rows are read,
parsed and committed the engine waits, and what slows these down slows the query down.
"""

from __future__ import annotations

import os
from typing import Final

IDLE_SHARE: Final = 0.5  # of a core while the server has little to do: larger shows results sooner
BUSY_SHARE: Final = 0.03  # of a core while the server works and cores are few: smaller shows results later
MANY_SHARE: Final = 0.25  # of a core where the engine has others, and where followers are in danger of missing rows
WORKING: Final = 0.5  # of a core, that the server's process takes when it works: less makes followers wait sooner
FEW_CORES: Final = 2  # that the server's process can keep busy alone: one computes, one reads and parses


def share(busy: float, cores: int, urgent: bool = False) -> float:
    """``busy`` is the share of a core that the server's process takes. ``urgent``: rows that a follower still needs are
    about to be forgotten.

    >>> share(0.0, cores=2), share(0.25, cores=2), share(0.8, cores=2)
    (0.5, 0.25, 0.03)
    >>> share(1.0, cores=8), share(1.0, cores=2, urgent=True)
    (0.25, 0.25)
    """
    least = MANY_SHARE if urgent or cores > FEW_CORES else BUSY_SHARE
    return max(least, IDLE_SHARE * (1.0 - busy / WORKING))


def pause(spent: float, share: float) -> float:
    """Seconds until the next round, after one that took so much CPU.

    >>> pause(0.01, 0.25)
    0.03
    """
    return spent * (1.0 / share - 1.0)


def cores() -> int:
    """That this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
