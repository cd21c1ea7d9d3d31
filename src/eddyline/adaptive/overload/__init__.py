"""Overload: which rows a stream sheds, and estimates for all rows from the rows that are kept."""
