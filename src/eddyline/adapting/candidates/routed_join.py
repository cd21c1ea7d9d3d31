"""The multi-route join with adaptive indexes (AMRI): ``WITH (joins = 'routes', index = 'amri')``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from eddyline.adapting.index_memory import FITTING, fits_mjoin, memory_limit, mjoin_bytes, search_cost, size_of
from eddyline.adaptive.indexes.cost import EQUAL_COSTS, TYPICAL_COSTS, UnitCosts
from eddyline.adaptive.indexes.policies import IndexOptions, make_tuner, parse_index
from eddyline.core.amounts import size as spelled_bytes
from eddyline.core.errors import JobError
from eddyline.core.time import processor_clock
from eddyline.core.window import Rows, is_time_based
from eddyline.expr.describe import describe
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions, is_constant
from eddyline.plan.graph import alias_of
from eddyline.plan.join_costs import best_order
from eddyline.plan.logical import Join, Plan, RelationScan, Select, Window
from eddyline.plan.rewrite import movable

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder

NAME, INDEX, DEFAULT = "routes", "index", "amri"
BATCH_ROWS, MAX_BATCH_ROWS = 1_024, 8_192  # rows that are routed together: at least, and at most
WINDOW_ROWS_PER_BATCH_ROW = 10  # larger makes smaller batches, from which routes are learned sooner
INDEXES_IN_A_WINDOW = 4  # a search goes through one for each different partition, four to a window by default


@candidate
class RoutedJoinCandidate(Candidate):
    name = NAME
    option = "joins"
    version = 5

    def check(self, options: Mapping[str, Any]) -> None:
        index_options(options)

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        limit, named = memory_limit(planning.options), planning.options.get("joins")
        if named != NAME and (named is not None or limit is None):
            return Refused("the option 'joins' does not name it")
        for child in node.inputs:
            if not is_kept_by_join(child):
                return Refused(f"{alias_of(child)} is neither constant nor a stream under a RANGE or ROWS window")
        size = size_of(node)
        if limit is None or size is None:
            if named != NAME:
                return Refused("the rows of its windows are not known before it runs, so that no limit can be kept")
            return "each batch takes a route of its own, and the indexes of the states follow the searches"
        taken = spelled_bytes(round(mjoin_bytes(size)))
        if fits_mjoin(size, limit):
            if named != NAME:
                return Refused(f"the hash indexes of an MJoin, about {taken}, fit into {spelled_bytes(limit)}")
            return "its indexes are chosen while it runs, by what they cost"
        return (
            f"the hash indexes of an MJoin take about {taken} for {size.rows:,} rows, and {spelled_bytes(limit)} are "
            "allowed; its own are chosen while it runs"
        )

    def cost(self, node: Join, planning: Planning) -> float:
        """An element is put into one index, and each look-up goes through the indexes of the window's partitions."""
        limit, size = memory_limit(planning.options), size_of(node)
        if limit is None or size is None:
            return 1.0 + best_order(len(node.inputs)) * INDEXES_IN_A_WINDOW
        return 1.0 + best_order(len(node.inputs)) * search_cost(size, limit, TYPICAL_COSTS)

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        from eddyline.adapting.index_costs import unit_costs
        from eddyline.adapting.route_control import RoutesAndIndexes
        from eddyline.adaptive.indexes.routes import Routes
        from eddyline.operators.routed_join import RoutedJoin

        tuner_name, options = resolved_index(node, builder.planning.options)
        parts = builder.join_parts(node, need)
        name = builder.name("routed-join")
        busy = processor_clock(builder.clock)

        def unit() -> UnitCosts:
            return unit_costs(busy) if options.costs == "measured" else EQUAL_COSTS

        tuner = partial(make_tuner, tuner_name, options)
        routes = Routes(connected(parts), options.routes, options.explore, options.seed)
        attributes = [[describe(e) for e in keys] for keys in parts.graph.keys]
        clock = busy if options.costs == "measured" else None
        control = RoutesAndIndexes(name, attributes, routes, tuner, unit, builder.context.log, clock)
        registry = builder.registry
        stubs = [stub for stub in parts.stubs if stub is not None]
        operator = RoutedJoin(
            name, parts.inputs, parts.graph, parts.residual, stubs, node.schema.names, builder.context,
            parts.conditions, control.initial, control,
            partition_rows=options.partition, batch_rows=options.batch or BATCH_ROWS, in_flight=options.in_flight,
            peers=registry.stubs, shared_as=(tuner_name, shared_options(options)) if registry.sharing else None,
        )  # fmt: skip
        return builder.add_join(node, operator, parts)


def index_options(options: Mapping[str, Any]) -> tuple[str, IndexOptions]:
    """The option 'index', checked; the paper's AMRI without it.

    >>> index_options({"joins": "routes", "index": "hash(2)"})[0]
    'hash'
    >>> index_options({"index": "amri"})
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the option 'index' is about multi-route joins: write joins = 'routes' beside it.
    """
    written = options.get(INDEX)
    if written is None:
        return DEFAULT, IndexOptions()
    if not isinstance(written, str):
        raise JobError(f"the option 'index' is a text such as 'amri' or 'hash(3)', not {written!r}.")
    name, found = parse_index(written)
    if options.get("joins") != NAME and name != FITTING:
        raise JobError("the option 'index' is about multi-route joins: write joins = 'routes' beside it.")
    return name, found


def resolved_index(node: Join, options: Mapping[str, Any]) -> tuple[str, IndexOptions]:
    """As ``index_options``; where indexes are to fit into the memory, with the rows that are known."""
    name, written = index_options(options)
    size = size_of(node)
    if written.batch is None:
        written = replace(written, batch=batch_of(0 if size is None else size.rows))
    assert written.batch is not None
    if name != FITTING or size is None or written.memory is None:
        return name, written
    # Rows of a batch are in the index before others have left, so they take memory; but every batch costs the same time
    # beside its searches, so that half the rows in a batch take nearly twice the time.
    batch, partition = min(written.batch, max(64, size.rows // 2)), min(written.partition, max(1, size.largest // 4))
    return name, replace(written, batch=batch, partition=partition, rows=size.rows, largest=size.largest)


def batch_of(rows: int) -> int:
    """The rows that are routed together where windows hold so many rows: what a batch costs beside its searches hardly
    depends on its rows, but they are in the indexes before others leave, and searches go past them.

    >>> batch_of(0), batch_of(8_000), batch_of(40_000), batch_of(10**6)
    (1024, 1024, 4000, 8192)
    """
    return min(MAX_BATCH_ROWS, max(BATCH_ROWS, rows // WINDOW_ROWS_PER_BATCH_ROW))


def shared_options(options: IndexOptions) -> IndexOptions:
    """What joins must agree in to have one state module: how many rows a join routes together is its own affair."""
    return options if options.memory is not None else replace(options, batch=None)


def is_kept_by_join(p: Plan) -> bool:
    """Whether the join itself keeps the rows of an input: windows over streams and constant relations."""
    filters: list[Any] = []
    below = p
    while isinstance(below, Select):
        filters, below = [*below.conjuncts, *filters], below.input
    if isinstance(below, Window) and isinstance(below.spec, Rows):
        return all(map(movable, filters))
    if isinstance(p, Window):
        return is_time_based(p.spec)
    return isinstance(below, RelationScan) and is_constant(p)


def connected(parts: Any) -> list[set[int]]:
    """For each input those that an equality or a comparison connects it with."""
    neighbours = [set(near) for near in parts.graph.neighbours()]
    for c in parts.conditions:
        neighbours[c.left.input].add(c.right.input)
        neighbours[c.right.input].add(c.left.input)
    return neighbours
