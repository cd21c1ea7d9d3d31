"""Candidates that adapt, one a file: what ties policies to the operators that the planner may choose.

Importing this package registers every candidate, those of ``eddyline.plan.candidates`` included.
"""

from __future__ import annotations

from eddyline.plan import candidates as _plain
from eddyline.plan.candidates import load_package

load_package(_plain.__name__, _plain.__path__)
load_package(__name__, __path__)
