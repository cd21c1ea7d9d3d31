"""Generators with dials (rate, keys, skew, correlation, drift), readers of real data sets, and the demo."""
