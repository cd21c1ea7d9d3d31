"""The parent of Spark's Python workers, which loads everything once so that each worker starts hot.

Spark starts ``python -m <spark.python.daemon.module>`` and has it fork a worker for each task that runs at a time.
Spark's own daemon forks early and lets every worker import pandas, Arrow, numba and this package anew: more than a
second each. This one imports first and then hands over to Spark's.

What makes forking after the imports sound and cheap, and work in the workers:

- *No thread may exist at the fork*, since a lock that another thread holds stays locked in the child for ever.
  OpenBLAS (numpy) and jemalloc (Arrow) start threads when they are loaded, unless a setting forbids it, and so they
  are; ``eddyline`` starts none. ``threads()`` counts, and tests hold it to one.
- *Freed memory is kept* (``engine.allocation``).
- *What was imported is frozen* out of the garbage collector. Spark's workers collect after each task, which with all
  of these modules in memory takes 0.1 s, and touches (so: copies) every page that they could have shared.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Final

from eddyline.engine.allocation import keep_memory

# Set before numpy and Arrow are loaded; a user's own settings win.
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
MODULES: Final = (
    "numpy",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pandas",
    "numba.core.boxing",  # which a kernel needs that comes from the cache
    "numba.core.runtime.context",
    "pyspark.worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.datasource",
    "pyspark.sql.worker.plan_data_source_read",
    "eddyline.spark.pipeline",
    "eddyline.spark.shard_worker",
    "eddyline.spark.stateless_worker",
    "eddyline.adapting.constraint_control",
    "eddyline.adapting.index_costs",
    "eddyline.adapting.join_choice",
    "eddyline.adapting.join_switch",
    "eddyline.adapting.change_policies",
    "eddyline.adapting.route_control",
    "eddyline.adapting.starting_plan",
    "eddyline.spark.fit_processor",
    "eddyline.spark.fit_worker",
    "eddyline.spark.sweep_worker",
    *(
        f"eddyline.spark.sources.{m}"
        for m in ("directory", "guard", "memory", "packed", "parquet", "rows", "shipping", "text")
    ),
    # What plans import only where they need it; the kernels are compiled or loaded at their first call all the same.
    *(
        f"eddyline.operators.{m}"
        for m in (
            "aggregate",
            "as_of_join",
            "as_of_waiting",
            "bound_match",
            "constrained_events",
            "constrained_join",
            "explode",
            "join_handover",
            "join_tree",
            "judged_once",
            "look_up",
            "match",
            "match_select",
            "membership",
            "model_query",
            "offered_join",
            "over",
            "predictive_query",
            "switching_join",
        )
    ),
    "eddyline.plan.comparisons",
    "eddyline.synopses.protocol",
    *(f"eddyline.operators.{m}" for m in ("mjoin", "panes", "rank", "rstream", "seq_window", "sets", "star_look_up")),
    *(
        f"eddyline.operators.{m}"
        for m in ("fresh_aggregate", "session_window", "until_window", "window_columns", "wstream")
    ),
)


def preload() -> None:
    """Import what workers use. What is missing is left to the worker, which can report it to its user."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    keep_memory()
    # Standard output is where Spark reads the daemon's port: nothing that a module prints may get there.
    with contextlib.redirect_stdout(sys.stderr):
        for module in MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        _prepare_numba()
    gc.collect()
    gc.freeze()


def _prepare_numba() -> None:
    """Load what numba puts off until the first kernel of a process: a quarter of a second in each worker."""
    with contextlib.suppress(ImportError, AttributeError):  # not a public name of numba's
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


def threads() -> int:
    """How many threads this process has, those of libraries included; 1 where the system does not say."""
    with contextlib.suppress(OSError):
        return len(list(Path("/proc/self/task").iterdir()))
    return 1


def main() -> None:
    from pyspark.daemon import manager

    preload()
    manager()


if __name__ == "__main__":
    main()
