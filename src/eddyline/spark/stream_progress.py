"""The progress of streams before a micro-batch, for the tasks that read its rows.

Which rows are late depends on the rows of *earlier* micro-batches, which only the shards have. They write the bounds to
a file for the other workers of their executor, in the folder that Spark keeps there for the files of its application. A
worker that reads rows of the very next micro-batch can then decide which of them are late, and make panes of all others
where they are read. No answer depends on it: a worker without the file ships rows as they are, and the shards judge
them.

The bounds can be trusted, because they follow from the rows of earlier micro-batches: a micro-batch that is run again
ends with the same bounds, in any worker, if its source brings the same rows again, as Spark requires. A file is named
by the number of the micro-batch, Spark's names for the query and for this start of it, and a name drawn for each
program. The shards check the bounds all the same: panes carry the smallest time in them.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Final

from eddyline.core.time import BEGINNING
from eddyline.spark.packing import Route

_BATCH, _NAMES = (
    "streaming.sql.batchId",
    ("sql.streaming.queryId", "spark.jobGroup.id"),
)  # properties that Spark gives its tasks
FOLDER: Final = "eddyline-bounds"

Place = tuple[Path, str, int]  # folder of the application, streaming query and its start, micro-batch


def publish(program: str, group: int, lane: int, bound: int) -> None:
    """After a micro-batch: elements of the next one are late if they are before ``bound``."""
    here = _place()
    if here is None:
        return
    folder, query, batch = here
    path = _path(folder, query, program, group, lane)
    text = f"{batch + 1} {bound}"
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        # All shards agree: one of them writes it, and a reader never sees half of it.
        if not path.exists() or path.read_text() != text:
            mine = path.with_name(f"{path.name}.{os.getpid()}")
            mine.write_text(text)
            mine.replace(path)


def known(route: Route) -> int | None:
    """What is before this is late, of the rows that a task reads now; None: that is not known here."""
    if not route.streaming:
        return BEGINNING  # a batch query has one micro-batch
    here = _place()
    if here is None:
        return None
    folder, query, batch = here
    with contextlib.suppress(OSError):
        said = _path(folder, query, route.program, route.group, route.lane).read_text().split()
        return int(said[1]) if int(said[0]) == batch else None
    return None


def _path(folder: Path, query: str, program: str, group: int, lane: int) -> Path:
    return folder / FOLDER / f"{query}-{program}-{group}-{lane}"


def _place() -> Place | None:
    """Where this task is; None: in no streaming query."""
    from pyspark import SparkFiles, TaskContext

    context: Any = TaskContext.get()
    if context is None:
        return None
    batch, *names = map(context.getLocalProperty, (_BATCH, *_NAMES))
    if batch is None or None in names:
        return None
    return Path(SparkFiles.getRootDirectory()), "-".join(names), int(batch)
