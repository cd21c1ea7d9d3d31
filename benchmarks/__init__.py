"""Eddyline against batch engines, against a bare kernel, and against itself: ``python -m benchmarks.run``."""

from __future__ import annotations

import os

# What is measured is the compiled kernels, whether or not the first run of a query would have had them compiled.
os.environ.setdefault("EDDYLINE_COMPILE", "at-once")
