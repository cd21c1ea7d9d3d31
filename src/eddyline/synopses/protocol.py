"""The protocols of synopses (thesis 2.2.3), for any form of storage and look-up.

A *synopsis* is what an operator keeps of its inputs. Operators use synopses through these protocols, so that another
kind (rows on disk, an index with address bits by attribute, a synopsis that drops what a constraint makes useless) is
another class and no change of an operator.

- A ``RowSynopsis`` keeps rows: ``insert`` puts rows in and says where they are, ``expire`` lets them go, ``probe``
  reads them by place. ``Stub`` keeps a range of row numbers of a shared store, ``Bag`` slots of distinct rows.
- An ``Index`` finds places by key: ``insert`` and ``expire`` follow the rows that it indexes, ``probe`` gives the
  places of a key. It is no state: it is built from the rows.
- A ``CacheSynopsis`` keeps what can be computed again: it may lack anything at any time.

``give_back`` asks for memory. A synopsis may free less than it is asked for, or nothing; it must never change an answer
for it. Rows are given back only if they can be had again.

Kernels do not call these methods, for a call would cost more than an element. They work on the arrays that a synopsis
lays out, with functions of their own that do the same (``kernels.join_index``, ``kernels.join_cache``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from eddyline.core.bound import Bound
from eddyline.core.delta import Int64s


@runtime_checkable
class Synopsis(Protocol):
    """Memory that is measured and can be asked for."""

    def __len__(self) -> int:
        """Rows, keys or entries that it holds."""

    @property
    def bound(self) -> Bound:
        """How much it can hold at most."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, about."""

    def give_back(self, bytes: int) -> int:
        """Free up to so many bytes, or some more, without changing any answer: the bytes that were freed."""


@runtime_checkable
class RowSynopsis(Synopsis, Protocol):
    """Rows by place. What ``state`` returns is enough for ``load`` to have the same rows at the same places."""

    def insert(self, *rows: Any) -> Any:
        """Put rows in: the place of the first, or the places of all."""

    def expire(self, *places: Any) -> None:
        """The rows at these places, or below this one, are no longer needed."""

    def probe(self, places: Int64s, names: Sequence[str]) -> Mapping[str, pa.Array]:
        """The columns of the rows at some places."""

    def state(self) -> dict[str, Any]:
        """The pieces of a snapshot: nested dicts of arrays and plain numbers."""

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""


@runtime_checkable
class Index(Synopsis, Protocol):
    """Places by key. A key is a tuple of codes (``synopses.codes``)."""

    def insert(self, begin: int, end: int) -> None:
        """Index the rows at the places ``begin`` … ``end`` − 1 that join with anything."""

    def expire(self, place: int) -> None:
        """A row has left."""

    def probe(self, key: Sequence[int]) -> Int64s:
        """The places of the rows that have a key and have not left."""


@runtime_checkable
class CacheSynopsis(Synopsis, Protocol):
    """Results that can be computed again. They are not saved: a restored operator begins without."""

    def forget(self) -> None:
        """Hold nothing any more."""
