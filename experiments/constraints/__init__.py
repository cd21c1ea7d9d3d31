"""Experiments of chapter 6 of the thesis: memory under k-constraints."""
