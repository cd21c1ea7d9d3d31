"""Spark's own operators against ours, on the same Spark session settings, data and micro-batches."""
