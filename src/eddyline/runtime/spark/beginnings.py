"""What a job's checkpoint says of the job that began it, for the driver to read before anything starts.

Every shard checks the state that it takes over (``compatibility``), but a run over inputs that are at their end has no
micro-batch and asks no shard: without this a changed job would be given the results of the old one. And the number of
shards, which is fixed for the life of a checkpoint, need not be given again on a machine with other cores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError
from eddyline.runtime.job import SPARK_STATE
from eddyline.runtime.spark import compatibility
from eddyline.runtime.spark.program import Program

FILE: Final = "job.json"


def shards_of(checkpoint: Path) -> int | None:
    """The number of shards with which the checkpoint was begun; None: it is new."""
    found = _read(checkpoint)
    return None if found is None else int(found["shards"])


def check(checkpoint: Path, program: Program, shards: int) -> None:
    """Refuse a program that cannot go on from here, in words; a new checkpoint is begun."""
    now = compatibility.facts(program)
    found = _read(checkpoint)
    if found is None:
        if not _committed(checkpoint):  # otherwise an older version began it, and the shards will tell
            _write(checkpoint / FILE, {"shards": shards, "facts": now})
        return
    then: dict[str, Any] = found["facts"]
    if then.get("format") != compatibility.FORMAT:
        raise EddylineError(compatibility.wrong_format(then.get("format")))
    if compatibility.fingerprint(then) != compatibility.fingerprint(now):
        raise EddylineError(compatibility.explain(then, now))


def _committed(checkpoint: Path) -> bool:
    """Whether Spark has finished a micro-batch: before, there is nothing that a changed job could spoil."""
    return any((checkpoint / SPARK_STATE / "commits").glob("[0-9]*"))


def _read(checkpoint: Path) -> dict[str, Any] | None:
    path = checkpoint / FILE
    if not path.exists() or not _committed(checkpoint):
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise EddylineError(f"{path} cannot be read: the checkpoint is damaged; start with an empty one.") from None


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)
