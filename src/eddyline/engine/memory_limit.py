"""Keeps the state of a query within its limit of memory (the option ``memory``), as far as no answer depends on it."""

from __future__ import annotations

from eddyline.adaptive.overload.memory_order import ABOVE, MemoryOrder
from eddyline.core.errors import EddylineError
from eddyline.engine.running_query import RunningQuery
from eddyline.synopses.row_files import RowFiles
from eddyline.synopses.store import Store


class MemoryLimit:
    """``step`` is called between two runs of the graph: then no kernel holds what is moved."""

    def __init__(self, query: RunningQuery, limit: int, files: RowFiles) -> None:
        self.query, self.files = query, files
        self.order = MemoryOrder(limit)
        self._share(limit)
        self._limit_operators(limit)

    def _limit_operators(self, limit: int | None) -> None:
        for node in self.query.physical.nodes:
            if node.operator is not None:
                node.operator.limit_memory(limit)

    def _share(self, caches: int | None) -> None:
        from eddyline.adapting.change_policies import share_memory

        share_memory((n.operator for n in self.query.physical.nodes if n.operator is not None), caches)

    def step(self) -> None:
        held = self.query.held
        if held is not None and self.order.due(held.bytes):
            self._act()

    def _act(self) -> None:
        from eddyline.adapting.change_policies import cache_bytes

        query = self.query
        assert query.held is not None
        step = self.order.step(query.held.bytes, cache_bytes(o.operator for o in query.uses))
        self._share(step.caches)
        failed = ""
        if step.spill > 0:
            try:
                self._spill(step.spill)
            except EddylineError as error:  # the rows are still in memory: nothing is lost
                failed = str(error).removesuffix(".")
        for o in query.uses:
            o.measure()
        if query.held.bytes > self.order.limit:
            self._give_back(query.held.bytes - self.order.limit)
        on_disk = sum(store.on_disk()[1] for store in self._stores)
        for decision in self.order.done(query.held.bytes, on_disk, query.reached, failed):
            query.context.log.record(decision, operator="query")
        for stream in query.inputs.values():
            if stream.guard is not None:
                stream.guard.press(query, self.order.stage == ABOVE)

    @property
    def _stores(self) -> list[Store]:
        """The row stores that it reads: largest in memory first."""
        found = {id(s.store): s.store for o in self.query.uses for s in (*o.stubs, *o.operator.private_stubs())}
        return sorted(found.values(), key=Store.nbytes, reverse=True)

    def _give_back(self, bytes: int) -> None:
        """Free what operators hold and do not need: room for rows that have left, rows beside those that are needed.
        This comes last, because room that is given back is made again when rows come."""
        for o in self.query.uses:
            if bytes > 0:
                bytes -= o.operator.give_back(bytes)
                o.measure()

    def _spill(self, bytes: int) -> None:
        for store in self._stores:
            if bytes <= 0:
                break
            bytes -= store.spill(bytes, self.files)

    def end(self) -> None:
        """There is no limit any more. Rows on the disk stay there until they leave their windows."""
        self._share(None)
        self._limit_operators(None)
        for stream in self.query.inputs.values():
            if stream.guard is not None:
                stream.guard.press(self.query, False)
