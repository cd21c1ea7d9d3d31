"""Eddyline against batch engines, against a bare kernel, and against itself: ``python -m benchmarks.run``."""
