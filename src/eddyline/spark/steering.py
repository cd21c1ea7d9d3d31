"""Steering on Spark: what a user changes is checked on the driver and applied by every shard at the next micro-batch.

A change is a *letter*: plain data, kept in Spark's offset log with the micro-batch that delivers it. So every shard
gets each letter once, all in the same order, and a micro-batch that is run again delivers the same (``sources/guard``).
Letters about queries take effect before the rows of their micro-batch. Those about streams take effect after them: what
is late in a micro-batch was decided before the tasks that read its rows began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from eddyline.core.errors import JobError
from eddyline.engine.query import Query
from eddyline.engine.session import Session
from eddyline.spark.letters import Letter

STREAM: Final = "stream"


def apply(letters: Iterable[Letter], shard: int, queries: Sequence[Query], refused: list[str]) -> None:
    """Letters about the first query of a group. What a shard cannot do (its log may lack a decision) it says."""
    for letter in letters:
        steering = queries[0].steering
        if letter.get("shard") not in (None, shard):
            continue
        try:
            if "alter" in letter:
                steering.alter(letter["alter"])
            elif "pin" in letter:
                steering.pin(letter["pin"])
            elif "undo" in letter:
                steering.undo(letter["undo"])
        except JobError as error:
            refused.append(str(error))


def apply_to_streams(letters: Iterable[Letter], session: Session, lanes: Mapping[str, Sequence[str]]) -> None:
    """Letters about streams; ``lanes`` are the names of each in the shard."""
    for letter in letters:
        if STREAM in letter:
            for lane in lanes.get(letter[STREAM].lower(), ()):
                for what, ticks in letter["widths"].items():
                    session._set_width(lane, what, ticks)
