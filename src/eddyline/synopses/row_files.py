"""Chunks of row stores outside of memory: written once, mapped into memory, gone with the process (thesis 2.2.3).

A chunk is written as one Arrow file, mapped, and unlinked. Its columns are Arrow arrays as before: the system reads
their pages when they are used, and takes the pages back whenever it needs the memory. No other program can damage a
file without a name, and nothing is left of it when the process is killed; snapshots have the data that a restart
needs. Rows that a join under constraints finds by key are in files of another form (``spill_segment``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.synopses.spill_folder import SpillFolder


class RowFiles:
    """Files in a folder below ``directory`` (None: below that of the system for temporary files), which is made for
    the first of them.

    >>> rows, bytes = RowFiles().put({"a": pa.array([1, 2, 3]), "b": pa.array(["x", None, "z"])})
    >>> rows["b"].to_pylist(), bytes > 0
    (['x', None, 'z'], True)
    """

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory
        self._folder: SpillFolder | None = None
        self._written = 0

    def put(self, columns: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], int]:
        """Write columns to a file: the same columns, now on the disk, and the bytes of the file."""
        if self._folder is None:
            self._folder = SpillFolder(self.directory)
        path = self._folder.path / f"{self._written}.arrow"
        self._written += 1
        batch = pa.RecordBatch.from_pydict(dict(columns))
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            mapped = pa.memory_map(str(path))
            found = pa.ipc.open_file(mapped).get_batch(0)
            return dict(zip(found.schema.names, found.columns, strict=True)), int(mapped.size())
        except OSError as error:
            place = self._folder.path.parent
            raise EddylineError(f"rows cannot be spilled to {place}: {error.strerror or error}.") from error
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
