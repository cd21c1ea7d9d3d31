"""Windows that are operators of their own, and the stores of rows that windows share.

A window below a join is kept by the join (``plan.joins``); all others become operators here. Windows over the same
elements of a stream share one store: ``Windows.signature`` says when the elements are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from eddyline.core.catalog import Catalog
from eddyline.core.schema import Schema
from eddyline.core.window import PartitionRows, Range, Rows, Session, Unbounded, Until, spelled
from eddyline.expr.nodes import Column, Expr, substitute
from eddyline.operators.append_only import AppendOnlyWindow
from eddyline.operators.base import Operator
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Graph, Output
from eddyline.plan.logical import Plan, Select, StreamScan, Window
from eddyline.synopses.registry import Registry
from eddyline.synopses.sparse_store import SparseStub
from eddyline.synopses.store import Elements, Stub


class Windows(Graph):
    """The part of the builder that makes windows and stores. ``epochs`` say from which element on a stream is read."""

    catalog: Catalog
    registry: Registry
    epochs: Mapping[str, int]

    def windowed(self, p: Window, child: Output, need: Deletions, shared: bool = True) -> Output:
        """A window over a stream that is built already; with ``shared`` it is the stream of the plan."""
        if isinstance(p.spec, Unbounded) or (isinstance(p.spec, Range) and need == Deletions.NONE):
            operator: Operator = AppendOnlyWindow(self.name("seq-window"), p.schema)
            node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
            return Output(node, p.schema, ids=True, fifo=True, append_only=True)
        if isinstance(p.spec, Session | Until):
            return self.own_time(p, p.spec, child, need)
        from eddyline.operators.seq_window import PartitionWindow, RowsWindow, TimeWindow

        if isinstance(p.spec, PartitionRows):
            sparse = self.stub_for(p.input, SparseStub) if shared else self.private_stub(p.schema, SparseStub)
            operator = PartitionWindow(self.name("seq-window"), p.schema, p.spec, sparse)
            node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
            return Output(node, p.schema, ids=True, leaving=True)
        stub = self.stub_for(p.input) if shared else self.private_stub(p.schema)
        if isinstance(p.spec, Rows):
            operator = RowsWindow(self.name("seq-window"), p.schema, p.spec, stub, need)
        else:
            operator = TimeWindow(self.name("seq-window"), p.schema, p.spec, stub, need, spelled(p.spec, self.kind))
        node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
        # Rows that leave a time window while nothing enters may never be shown.
        leaving = need == Deletions.ALL or (isinstance(p.spec, Rows) and need != Deletions.NONE)
        return Output(node, p.schema, ids=True, fifo=True, append_only=need == Deletions.NONE, leaving=leaving)

    def own_time(self, p: Window, spec: Session | Until, child: Output, need: Deletions) -> Output:
        """Windows whose elements come or go at a time of their own."""
        deletes, label = need != Deletions.NONE, spelled(spec, self.kind)
        if isinstance(spec, Session):
            from eddyline.operators.session_window import SessionWindow

            edges = {c.name: c.edge for c in p.columns}
            operator: Operator = SessionWindow(self.name("session-window"), p.schema, spec, edges, deletes, label)
        else:
            from eddyline.operators.until_window import UntilWindow

            operator = UntilWindow(self.name("until-window"), p.schema, spec, deletes, label)
        node = self.add(operator, (child.node,), note=label)
        fifo = isinstance(spec, Session)
        return Output(node, p.schema, ids=True, fifo=fifo, append_only=not deletes, leaving=deletes and fifo)

    def stub_for(self, stream: Plan, kind: type[Stub] = Stub) -> Callable[[], Stub]:
        """The store of a stream plan, which windows over the same elements share."""
        what, prefix, fields = self.signature(stream)
        if what is not None and kind is not Stub:
            what = replace(what, sparse=True)

        def make() -> Stub:
            stub = self.registry.stub(what, fields, prefix, kind)
            self.stubs.append(stub)
            return stub

        return make

    def private_stub(self, schema: Schema, kind: type[Stub] = Stub) -> Callable[[], Stub]:
        """A store of its own, which no other window shares."""

        def make() -> Stub:
            stub = self.registry.stub(None, schema, "", kind)
            self.stubs.append(stub)
            return stub

        return make

    def signature(self, stream: Plan) -> tuple[Elements | None, str, Schema]:
        """What a store over this stream plan would hold, independent of aliases: filters over a scan can be shared."""
        conjuncts: list[Expr] = []
        p = stream
        while isinstance(p, Select):
            conjuncts = [*p.conjuncts, *conjuncts]
            p = p.input
        if isinstance(p, StreamScan) and p.stream.lower() in self.catalog.streams:
            by: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(p.schema, p.columns, strict=True)}
            written = tuple(substitute(c, by) for c in conjuncts)
            name = p.stream.lower()
            return Elements(name, self.epochs.get(name, 0), written), f"{p.alias}.", p.schema
        return None, "", stream.schema
