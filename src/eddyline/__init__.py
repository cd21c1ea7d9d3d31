"""Eddyline: continuous queries over data streams, in CQL, with exact answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.core.errors import (
    CqlError,
    DataError,
    DivertedRowsWarning,
    EddylineError,
    InvalidRowsWarning,
    JobError,
    LateRowsWarning,
    ManySignalsWarning,
    MissedRowsWarning,
    OverloadError,
    ShedRowsWarning,
)

if TYPE_CHECKING:
    from eddyline.client import connect
    from eddyline.core.predicate import predicate
    from eddyline.engine.fit import fit
    from eddyline.engine.query import Query
    from eddyline.engine.sweep import sweep
    from eddyline.session import Session

__version__ = "0.2.0"
__all__ = [
    "CqlError",
    "DataError",
    "DivertedRowsWarning",
    "EddylineError",
    "InvalidRowsWarning",
    "JobError",
    "LateRowsWarning",
    "ManySignalsWarning",
    "MissedRowsWarning",
    "OverloadError",
    "Query",
    "Session",
    "ShedRowsWarning",
    "__version__",
    "connect",
    "fit",
    "predicate",
    "sweep",
]

# Loaded when first used: ``import eddyline`` stays fast and needs neither numba nor Arrow.
_LAZY = {
    "connect": "eddyline.client",
    "Session": "eddyline.session",
    "Query": "eddyline.engine.query",
    "predicate": "eddyline.core.predicate",
    "fit": "eddyline.engine.fit",
    "sweep": "eddyline.engine.sweep",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'eddyline' has no attribute {name!r}")
