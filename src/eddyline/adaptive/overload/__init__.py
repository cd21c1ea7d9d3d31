"""Overload: which rows a stream sheds, and what results over the others say about all."""
