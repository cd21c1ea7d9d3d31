"""``query.segments()``: the result of a query on models with its polynomials as such."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.models.segments import FROM, TO, polynomial_array
from eddyline.plan.logical import ModelQuery, Plan
from eddyline.plan.models import CLOSED


def result_segments(plan: Plan, table: pa.Table) -> pa.Table:
    """Constant columns, the interval with its closedness, and each value's polynomial in t − ``_from``."""
    if not isinstance(plan, ModelQuery):
        raise JobError("segments() is of queries on models, and this one is on tuples: results() has its rows.")
    if plan.program.sample is not None:
        raise JobError(
            "this query samples its models (SAMPLE EVERY, or the slide of a window): results() has the rows."
        )
    constant = [n for n, modelled in plan.program.columns if not modelled]
    columns = {n: table[n] for n in (*constant, FROM, TO, CLOSED)}
    for name, modelled in plan.program.columns:
        if modelled:
            flat = [n for n in table.column_names if n.rpartition("_")[0] == name and n not in columns]
            values = [table[n].to_numpy() for n in flat]
            columns[name] = polynomial_array(np.column_stack(values) if len(table) else np.empty((0, len(flat))))
    return pa.table(columns)
