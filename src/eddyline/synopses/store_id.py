"""The identity of a join cache's store. In a module of its own, because plans name stores and load no kernel."""

from __future__ import annotations

from typing import NamedTuple


class StoreId(NamedTuple):
    """What a store holds. ``anchor`` is the input that an entry needs a living row of, with the entry's key: a pipeline
    whose own input is in the support has not counted the element that it is just joining."""

    segment: tuple[int, ...]
    key: tuple[int, ...]
    support: tuple[int, ...]
    anchor: int
    complete: bool

    @property
    def bucket_words(self) -> int:
        """Words of a bucket, as ``kernels.join_layout`` draws it."""
        return 1 + len(self.key) + (self.anchor >= 0)

    @property
    def node_words(self) -> int:
        return 1 + len(self.segment)
