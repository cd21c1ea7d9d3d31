"""Disorder of streams: how long to wait for late rows, and which timestamps are implausible."""
