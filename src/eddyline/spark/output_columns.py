"""The columns that Spark sees beside a query's own. Nothing is imported here: the stateful processor must load fast."""

from __future__ import annotations

from typing import Final

TAG: Final = "_eddyline"  # NULL for results, JSON for statistics
TAGGED: Final = "query int, payload binary, _eddyline string"
SHARD: Final = "eddyline_shard"  # of a fit: the shard of a row; stateful processors lose names that begin with _
BLOB: Final = "eddyline_blob"  # of a fit: rows as an Arrow stream
