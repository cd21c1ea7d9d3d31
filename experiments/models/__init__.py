"""Experiments of chapter 2 of Pulse: queries on polynomial models beside queries on tuples."""
