"""Partitioning: how the work of a plan is spread over shards that exchange no data.

*Correct* means: at every instant the results of all shards, put together as bags, are the results of one shard that
sees everything. The shards form a grid with one axis per *dimension*. A dimension gives every scan of the plan either a
column, whose hash is the coordinate of a row, or has the scan's rows copied to all coordinates. ``enumerate_layouts``
finds the dimensions that are correct, ``grid`` picks from them and shares the shards out, ``reasons`` says it in words.

*Why dimensions can be judged one by one.* Let every row below a node have, in every dimension, one coordinate or all of
them. By induction over the plan, a shard holds of each node exactly the rows whose coordinates it matches in every
dimension: the rows that a row is made of are together in a shard iff they are together in each coordinate, since a
product of sets meets another iff each factor does; and rows that must be seen together (a group, equal rows of a set
operator, a row and its deletion in a timed relation) are together in the grid iff they are together in each dimension.
So each dimension can be judged without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError
from eddyline.plan.logical import Plan, RelationScan, StreamScan
from eddyline.plan.partitioning.enumerate_layouts import Layouts
from eddyline.plan.partitioning.grid import ANY, Grid, Source, Split, choose, joint_lanes
from eddyline.plan.partitioning.places import Places
from eddyline.plan.partitioning.reasons import explain_grid, explain_one_shard

__all__ = ["ANY", "Lane", "Partitioning", "partition"]


@dataclass(frozen=True, slots=True)
class Lane:
    """One way in which the rows of an input travel.

    ``split`` has for every dimension the source column whose hash gives the coordinate, ``ANY`` where rows may be
    spread as one likes, or None where they are copied to all coordinates. Values that are equal must have equal hashes:
    NULL equals NULL here, 0.0 equals -0.0, NaN equals NaN, and a number equals itself in a wider type of its kind.
    """

    name: str  # unique in the plan: the declared name, or 'name#2' where the same input travels in several ways
    source: str  # the declared name
    split: Split
    constant: bool = False  # not shipped with the rows: every shard loads it and keeps what falls to it


@dataclass(frozen=True, slots=True)
class Partitioning:
    """``plan`` is the given plan with every scan renamed to its lane."""

    shares: tuple[int, ...]  # coordinates per dimension; () is one shard
    lanes: tuple[Lane, ...]
    plan: Plan
    reasons: tuple[str, ...]

    @property
    def shards(self) -> int:
        return prod(self.shares)


def partition(plan: Plan, catalog: Catalog, shards: int, rates: Mapping[str, float] | None = None) -> Partitioning:
    """Spread an optimized plan over at most ``shards`` shards; ``rates`` are rows per time of the inputs, 1 by default.

    >>> import pyarrow as pa
    >>> from eddyline.core.catalog import StreamDef
    >>> from eddyline.core.schema import Schema
    >>> from eddyline.core.time import TimeKind
    >>> from eddyline.cql import bind
    >>> from eddyline.plan.rules import optimize
    >>> catalog = Catalog()
    >>> schema = Schema.from_arrow(pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]))
    >>> for name in "RST":
    ...     catalog.add("streams", StreamDef(name, schema, TimeKind.INTEGER, "ts"))
    >>> text = "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.a AND S.b = T.b"
    >>> chain = partition(optimize(bind(text, catalog).plan), catalog, 16)
    >>> chain.shares, [(lane.name, lane.split) for lane in chain.lanes]
    ((4, 4), [('R', ('a', None)), ('S', ('a', 'b')), ('T', (None, 'b'))])
    >>> chain.reasons[1]
    'R is copied 4 times (it has no S.b), S travels once, T is copied 4 times (it has no R.a)'
    """
    if shards < 1:
        raise JobError(f"a query runs on one shard or more, not on {shards}.")
    places = Places(plan)
    sources = sources_of(places, catalog, rates or {})
    if shards == 1:
        return replace(lay_out(places, catalog, Grid((), ()), sources), reasons=("one shard, as requested",))
    layouts = Layouts(catalog, places)
    found = lay_out(places, catalog, choose(layouts.choices(plan), sources, shards), sources)
    reasons = found.reasons if found.shares else explain_one_shard(layouts.obstacles)
    return replace(found, reasons=(*reasons, *layouts.hints))


def lay_out(places: Places, catalog: Catalog, grid: Grid, sources: Sequence[Source]) -> Partitioning:
    """The plan on a grid whose dimensions are known to be correct."""
    found, at = joint_lanes([(s, tuple(d[i] for d in grid.dimensions)) for i, s in enumerate(sources)])
    lanes = _named(found, catalog)
    mine = [lanes[p] for p in at]
    renamed = places.renamed([lane.name for lane in mine])
    reasons = explain_grid(grid, sources, mine, places.counted()) if grid.shares else ()
    return Partitioning(grid.shares, lanes, renamed, reasons)


def sources_of(places: Places, catalog: Catalog, rates: Mapping[str, float]) -> list[Source]:
    """What the scans read, by place."""
    by_name = {n.lower(): r for n, r in rates.items()}
    return [_source(n, catalog, by_name) for n in places.scans]


def _source(scan: StreamScan | RelationScan, catalog: Catalog, rates: Mapping[str, float]) -> Source:
    if isinstance(scan, RelationScan):
        name = catalog.relations[scan.relation.lower()].name
        return Source(name, scan.alias, rates.get(name.lower(), 1.0), scan.constant, shipped=not scan.constant)
    stream = catalog.streams.get(scan.stream.lower())
    if stream is None:  # late(q), invalid(q)
        return Source(scan.stream, scan.alias, shipped=False)
    return Source(stream.name, scan.alias, rates.get(stream.name.lower(), 1.0))


def _named(ways: Sequence[tuple[Source, Split]], catalog: Catalog) -> tuple[Lane, ...]:
    taken = {n.lower() for n in catalog.sources()}
    used: set[str] = set()
    lanes = []
    for source, split in ways:
        name, number = source.name, 1
        while name.lower() in used or (number > 1 and name.lower() in taken):
            number += 1
            name = f"{source.name}#{number}"
        used.add(name.lower())
        lanes.append(Lane(name, source.name, split, source.constant))
    return tuple(lanes)
