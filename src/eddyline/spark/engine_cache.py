"""Engines that stay in the worker process between micro-batches.

This must be an importable module, because a closure is unpickled anew for each task, with all that it defines. A cached
engine only saves reading the state from the store; its nonce decides whether it may be used (``shard_state``).
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from eddyline.spark.program import Program
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_state import Head

MAX_BATCHES_WITHOUT_VISIT: Final = 3  # micro-batches; then the shard has moved to another worker
MAX_IDLE_NANOSECONDS: Final = 600 * 10**9  # then the query has ended, or hardly any rows come
MAX_PROGRAMS: Final = 8  # programs whose engines a worker keeps


@dataclass(slots=True)
class Hot:
    head: Head
    engine: ShardEngine
    used: int = 0  # nanoseconds, of a clock of this process


_engines: dict[tuple[str, int], Hot] = {}
_programs: OrderedDict[str, Program] = OrderedDict()


def program(run: str, pickled: bytes) -> Program:
    """The program, unpickled once in this process. By its run: programs of the same text and shards may still differ,
    in a function or in a slack."""
    found = _programs.get(run)
    if found is None:
        found = _programs[run] = pickle.loads(pickled)
        while len(_programs) > MAX_PROGRAMS:
            _programs.popitem(last=False)
    return found


def take(run: str, key: int, nonce: str) -> Hot | None:
    """The engine of a shard if it stands exactly where the store does. It leaves the cache: the caller puts it
    back when its work is stored, so that a task that fails half-way leaves nothing behind."""
    hot = _engines.pop((run, key), None)
    return hot if hot is not None and hot.head.nonce == nonce else None


def put(run: str, key: int, hot: Hot) -> None:
    hot.used = hot.engine.clock.nanoseconds()
    _engines[run, key] = hot
    for other, mine in list(_engines.items()):
        moved = other[0] == run and mine.head.batch + MAX_BATCHES_WITHOUT_VISIT < hot.head.batch
        if moved or mine.used + MAX_IDLE_NANOSECONDS < hot.used:
            del _engines[other]
