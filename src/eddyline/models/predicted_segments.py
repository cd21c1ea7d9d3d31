"""Stored segments as predictions: a segment says from its beginning on what its signal will be, until it ends.

What is correct: at τ a segment that began by τ is known as a whole, so the query is answered ahead up to its end, or up
to the query's ``HORIZON`` if that is earlier. A segment of the same key that begins later takes back what the one
before it said of the instants from there on. Every segment counts: there is no bound within which one would only
confirm another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.core.schema import Schema
from eddyline.models.predicted import Offer, PredictedRows, PredictedStore
from eddyline.models.segments import TO, SegmentLayout, flat_names
from eddyline.models.sources import SegmentRows, ticks


@dataclass(frozen=True, slots=True)
class PredictedSegments(PredictedRows):
    """Rows of a segment table; ``values`` have no terms, since coefficients are columns."""

    layout: SegmentLayout = field(kw_only=True)

    @staticmethod
    def of(stored: SegmentRows) -> PredictedSegments:
        return PredictedSegments(stored.key, tuple((n, ()) for n in stored.degrees), layout=stored.layout)

    @property
    def degrees(self) -> dict[str, int]:
        return SegmentRows(self.layout).degrees

    def read_columns(self) -> frozenset[str]:
        return frozenset((*self.key, TO, *flat_names(self.layout)))

    def coefficients(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        return SegmentRows(self.layout).coefficients(columns)

    def constants(self, schema: Schema) -> list[str]:
        return list(self.key)


class PredictedSegmentStore(PredictedStore):
    """Every row begins a segment, which has an end of its own: nothing is kept of a signal beside its segments."""

    model: PredictedSegments

    def offers(self, time: Int64s, columns: Mapping[str, pa.Array]) -> list[Offer]:
        return [Offer((), t, [], columns, i) for i, t in enumerate(time.tolist())]

    def offer(self, row: Offer) -> bool:
        self.violating.append(row)
        return True

    def _begin(self, row: Offer) -> int:
        end = row.columns[TO].slice(row.row, 1)
        own = row.time if end.null_count else int(ticks(end)[0])  # without an end it holds nowhere
        return own if self.horizon is None else min(own, row.time + self.horizon)

    def statistics(self) -> dict[str, int]:
        return {}
