"""The row stores of a session: which windows share one, and when a window moves to that of an older query."""

from __future__ import annotations

from eddyline.core.schema import Field, Schema
from eddyline.synopses.index_pool import IndexPool
from eddyline.synopses.row_files import RowFiles
from eddyline.synopses.row_shift import Beginning, RowShift
from eddyline.synopses.store import Elements, Store, Stub


class Registry:
    """The stores of a session by what they hold; ``sharing`` may be switched while queries run. ``spill`` is the folder
    for rows that are kept outside of memory; None: one that is made for the time being."""

    def __init__(self, sharing: bool = True, spill: str | None = None) -> None:
        self.sharing, self.spill = sharing, spill
        self.files = RowFiles(spill)
        self.stubs: list[Stub] = []
        self.began: dict[tuple[str, int], int] = {}  # by stream and epoch the largest time that had come before it
        self.joined = 0  # stubs that moved to a store of an older query
        self.pool = IndexPool()

    def stub(self, what: Elements | None, fields: Schema, prefix: str, kind: type[Stub] = Stub) -> Stub:
        """A stub for an operator about to start; one of unknown elements (None) shares with no other.

        Whether or not they share now, stores of the same elements have the same columns, so that they can later. So
        has a store that will be given up for that of an older query.
        """
        named = Schema(tuple(Field(f.name[len(prefix) :], f.type) for f in fields))
        peers = [s for s in self.stubs if s.what == what] if what is not None else []
        store = peers[0].store if peers and self.sharing else kind.make_store(named)
        for peer in peers:
            store.widen(peer.store.schema)
            peer.store.widen(named)
        made = kind(store, prefix, what)
        made.pool = self.pool
        self.stubs.append(made)
        if what is not None:
            after = self.began.get((what.stream, what.epoch))
            made.beginning = Beginning(after)
            older = self._older(made) if after is not None else []
            if older:
                for one in {id(s.store): s for s in (made, *peers)}.values():
                    one.store.widen(older[0].store.schema)
            if older and self.sharing:
                made.seek = self._seek
        return made

    def _older(self, stub: Stub) -> list[Stub]:
        """Stubs of queries that were registered before, over the same elements and more, whose stores have the columns
        that this one needs: those that will stay where they are first, and of them those with most company."""
        what, needed = stub.what, set(stub.store.schema)
        assert what is not None
        found = [
            s for s in self.stubs
            if s.what is not None and s.what.epoch < what.epoch and s.what.any_epoch == what.any_epoch
            and s.store is not stub.store and needed <= set(s.store.schema)
        ]  # fmt: skip
        return sorted(found, key=lambda s: (s.seek is not None, -len(s.store.stubs)))

    def _seek(self, stub: Stub) -> None:
        """Move a stub to the store of an older query, as soon as both have the same rows under known numbers."""
        mine = next((s for s in stub.row_shifts if s.younger is stub), None)
        if mine is None:
            columns = set(stub.store.schema)
            older = [s for s in self._older(stub) if s.last is not None and set(s.store.schema) == columns]
            if not older:
                return
            mine = RowShift(older[0], stub)
            for s in (older[0], stub):
                s.row_shifts.append(mine)
        shift, host, left = mine.shift, mine.older, stub.store
        if shift is not None and stub.join(host.store, shift + host.shift):
            stub.seek = None
            self._stop_counting(mine)
            self.joined += host.store is not left
            for s in left.stubs if host.store is not left else ():  # they followed this one
                s.seek = self._seek if s.beginning.after is not None else None

    def _stop_counting(self, row_shift: RowShift) -> None:
        for s in (row_shift.older, row_shift.younger):
            s.row_shifts = [x for x in s.row_shifts if x is not row_shift]

    def forget(self, stub: Stub) -> None:
        """A query was removed: its stub no longer holds rows."""
        self.stubs = [s for s in self.stubs if s is not stub]
        for row_shift in list(stub.row_shifts):
            self._stop_counting(row_shift)  # a stub that waited for it looks for another
        if stub.companion is not None:
            stub.companion.forget()
        if stub in stub.store.stubs:
            stub.store.stubs.remove(stub)
            stub.store.trim()

    def release(self, stub: Stub) -> None:
        """The operator of a stub keeps its rows elsewhere from now on, and its query goes on."""
        self.forget(stub)
        stub.store, stub.low, stub.seek, stub.companion = stub.make_store(stub.store.schema), stub.end, None, None

    def switch(self, sharing: bool) -> None:
        self.sharing = sharing
        homes: dict[Elements, list[tuple[Store, int]]] = {}
        for stub in self.stubs:
            stub.seek = None
            for row_shift in list(stub.row_shifts):
                self._stop_counting(row_shift)
            if not sharing:
                stub.detach()
            elif stub.what is not None:
                known = homes.setdefault(stub.what, [])
                if not any(stub.attach(store, shift) for store, shift in known):
                    known.append((stub.store, stub.shift))
        for stub in self.stubs if sharing else ():
            if stub.what is not None and stub.beginning.after is not None and self._older(stub):
                alone = all(s.what == stub.what for s in stub.store.stubs)
                stub.seek = self._seek if alone else None

    def size(self) -> tuple[int, int]:
        """Rows and bytes of all stores, shared ones once."""
        stores = {id(s.store): s.store for s in self.stubs}.values()
        return sum(len(s) for s in stores), sum(s.nbytes() for s in stores)
