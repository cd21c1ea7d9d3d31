"""Facts of the job that began a checkpoint, written there for the driver to read before anything starts.

Every shard checks the state that it takes over (``compatibility``), but a run over inputs that are at their end has no
micro-batch and asks no shard: without this a changed job would be given the results of the old one. And the number of
shards, which is fixed for the life of a checkpoint, need not be given again on a machine with other cores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError
from eddyline.engine.job import SPARK_STATE
from eddyline.engine.state_codec import name_of
from eddyline.io import durable
from eddyline.spark import compatibility
from eddyline.spark.program import Program

FILE: Final = "job.json"


def shards_of(checkpoint: Path) -> int | None:
    """The number of shards with which the checkpoint was begun; None: it is new."""
    found = _read(checkpoint)
    return None if found is None else int(found["shards"])


def done(checkpoint: Path) -> int:
    """How many micro-batches Spark has noted as done; it keeps the notes of the last ones only."""
    notes = (checkpoint / SPARK_STATE / "commits").glob("[0-9]*")
    return max((int(p.name) + 1 for p in notes if p.name.isdecimal()), default=0)


def check(checkpoint: Path, program: Program, shards: int, order: Sequence[int] = ()) -> None:
    """Refuse a program that cannot go on from here, in words; a new checkpoint is begun. ``order`` is the place in the
    job of each query of the program: results are kept by it."""
    now = compatibility.facts(program)
    found = _read(checkpoint)
    if found is None:
        _write(checkpoint / FILE, {"shards": shards, "facts": now, "order": list(order)})
        return
    then: dict[str, Any] = found["facts"]
    if then.get("format") != compatibility.FORMAT:
        raise EddylineError(compatibility.wrong_format(then.get("format")))
    if compatibility.fingerprint(then) != compatibility.fingerprint(now):
        raise EddylineError(compatibility.explain(then, now))
    if found["order"] != list(order):
        raise EddylineError(
            f"the queries of the job stand in another order than when --checkpoint {checkpoint} was begun: put them"
            " back in the old order, or start with an empty directory."
        )


def _read(checkpoint: Path) -> dict[str, Any] | None:
    path = checkpoint / FILE
    if not done(checkpoint):  # before the first micro-batch is done there is nothing that a changed job could spoil
        return None
    try:
        found = dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise EddylineError(
            f"{path} is missing: either the checkpoint is not whole, or an older version of Eddyline made it; continue"
            " with a complete copy or with that version, or start with an empty directory."
        ) from None
    except (OSError, ValueError, TypeError):
        raise EddylineError(f"{path} cannot be read: the checkpoint is damaged; start with an empty one.") from None
    if "digest" not in found and "facts" in found:
        raise EddylineError(
            f"an older version of Eddyline made the checkpoint {checkpoint}, and kept no record of its results:"
            " continue with that version, or start with an empty directory."
        )
    if found.pop("digest", None) != _digest(found):
        raise EddylineError(
            f"{path} does not hold what was written: the checkpoint is damaged; start with an empty one."
        )
    return found


def _write(path: Path, content: dict[str, Any]) -> None:
    durable.write(path, json.dumps({**content, "digest": _digest(content)}).encode())
    durable.sync([path.parent])


def _digest(content: dict[str, Any]) -> str:
    return name_of(json.dumps(content, sort_keys=True).encode())
