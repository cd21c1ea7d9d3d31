"""explode: a row for each element of a list; a row whose list is empty or NULL has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.operators.base import Operator


class ExplodeOperator(Operator):
    """Stateless: what comes and what goes is taken apart alike. The rows of one list have no identity of their own."""

    def __init__(self, name: str, schema: Schema, column: str, output: str) -> None:
        super().__init__(name, Schema((*schema, Field(output, schema[column].type.value_type))))
        self.column, self.output = column, output

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if len(delta) == 0:
            return Delta.empty(self.schema)
        lists = delta.columns[self.column]
        lengths = np.asarray(pa.compute.list_value_length(lists).fill_null(0))
        rows = delta.take(np.repeat(np.arange(len(delta)), lengths))
        return Delta(rows.time, {**rows.columns, self.output: lists.flatten()}, rows.weight)
