"""Eddyline: continuous queries over streams, re-planned while they run."""
