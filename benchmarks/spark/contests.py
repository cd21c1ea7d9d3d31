"""Spark's own operators and ours over the same files, in as many micro-batches, each in a driver of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from benchmarks.harness import Limit, Options, Report
from benchmarks.spark.configuration import OURS, Configuration, Outcome
from benchmarks.spark.data import streams
from benchmarks.spark.driver import PROVIDER
from benchmarks.spark.fresh import measure

MB = 1 << 20
UNIMPORTANT = ("spark.ui", "spark.log", "spark.driver.host", "spark.driver.bind", "spark.sql.streaming.numRecent")
QUICK_BATCH, QUICK_BATCHES = 20_000, 3
PARTITIONS = "spark.sql.shuffle.partitions"
TOTAL = 6_000_000  # events over which the time with start-up is taken


@dataclass(frozen=True, slots=True)
class Bound:
    """What must hold between ours and Spark's own, each in that of its forms and settings that is fastest in this very
    respect; ``form`` names one of Spark's own, if it is not for all. Memory is that of whichever of our forms takes
    more, against Spark's own where that is fastest."""

    what: Literal["steady", "total", "memory"]
    factor: float
    form: str | None = None

    def limit(self, by_side: Sequence[Sequence[Outcome]]) -> Limit | None:
        ours = [s for s in by_side if s[0].configuration.side in OURS and not s[0].configuration.plain]
        c = ours[0][0].configuration
        events = min(TOTAL, c.events)
        peers = [p for p in by_side if p[0].configuration.side not in OURS and p[0].configuration.store == "hdfs"]
        peers = [p for p in peers if self.form in (None, p[0].configuration.side)]
        peers = [p for p in peers if p[0].configuration.events >= events]
        alone = all(o.memory for side in (*ours, *peers) for o in side)
        if self.what != "steady" and not alone:
            return None  # they shared a driver
        if self.what == "memory":
            fastest = min(peers, key=lambda p: middle(p, "steady"))
            share = max(_ratio(mine, fastest, lambda o: o.memory["peak"]) for mine in ours)
            return Limit("peak memory against Spark's own where that is fastest", share, self.factor)
        seconds = {"steady": lambda o: o.steady, "total": lambda o: o.total(events)}[self.what]
        faster = min(max(_ratio(p, mine, seconds) for mine in ours) for p in peers)
        about = {"steady": f"a steady micro-batch of {c.batch:,} events", "total": f"{events:,} events with start-up"}
        return Limit(f"{about[self.what]}: faster than Spark's own", faster, self.factor, "at least")


def _ratio(some: Sequence[Outcome], others: Sequence[Outcome], fact: Callable[[Outcome], float]) -> float:
    return float(median(fact(a) / fact(b) for a, b in zip(some, others, strict=True)))


@dataclass(frozen=True, slots=True)
class Size:
    """``peers`` are forms of Spark's own: side, state store, and how many of the events (the slow ones get less).
    ``others``: the first of them also in a heap as small as ours, and in a plain JVM, as ours too. ``one``: ours has
    one state partition, so that a micro-batch is one task without a shuffle, which suits small ones; Spark's own has
    two, which suit it better (in one it took 1.7 times as long)."""

    events: int
    batch: int
    peers: tuple[tuple[str, str, int], ...]
    bounds: tuple[Bound, ...]
    others: bool = False
    one: bool = False


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    title: str
    workload: str
    sizes: tuple[Size, ...]
    keys: int = 100_000
    shards: int = 2  # one for each task, as docs/spark.md advises

    def configurations(self, size: Size, options: Options) -> list[Configuration]:
        """Ours first, over DataFrames and over paths."""
        ours = Configuration(self.workload, "ours", size.events, size.batch, self.keys, shards=self.shards)
        peers = [replace(ours, side=side, store=store, events=n) for side, store, n in size.peers]
        if size.one:
            ours = replace(ours, shards=1, extra={PARTITIONS: "1"})
        paths = replace(ours, side="paths")
        if options.quick:
            small = replace(ours, events=QUICK_BATCHES * QUICK_BATCH, batch=QUICK_BATCH, memory="2g")
            return [small, replace(small, side="paths"), replace(small, side=peers[0].side)]
        if not size.others:
            return [ours, paths, *peers]
        shorter = replace(peers[0], events=min(TOTAL, size.events))
        plain = [replace(c, plain=True) for c in (shorter, ours, paths)]
        return [ours, paths, *peers, replace(shorter, lean=True), *plain]

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title, details={"sizes": []})
        for size in self.sizes[:1] if options.quick else self.sizes:
            asked = self.configurations(size, options)
            rounds = [measure(asked, together=options.quick or not options.fresh) for _ in range(options.rounds)]
            everything = [o for r in rounds for o in r]
            checked = check(everything)
            by_side = [list(side) for side in zip(*rounds, strict=True)]
            report.lines += [*table(by_side), f"  {checked}"]
            limits = [b.limit(by_side) for b in size.bounds]
            report.limits += [x for x in limits if x is not None]
            report.details["sizes"].append({"checked": checked, "outcomes": [o.to_json() for o in everything]})
        report.lines.append(f"  {settings(by_side)}")
        return report


def check(outcomes: Sequence[Outcome]) -> str:
    """All have the number of results that DuckDB finds, and those over the same data the same sum of hashes."""
    sums: dict[str, dict[str, float]] = {}
    for o in outcomes:
        data = streams(o.configuration)
        if o.checked_results != data.expected:
            raise AssertionError(f"{o.configuration.title}: {o.checked_results:,} results instead of {data.expected:,}")
        sums.setdefault(str(data.folder), {})[o.configuration.title] = o.checksum
    for found in sums.values():
        first = next(iter(found.values()))
        if any(abs(x - first) > 1e-9 * abs(first) for x in found.values()):  # of integers: a factor of 2⁴⁰ above this
            raise AssertionError(f"different results: {found}")
    n = outcomes[0].checked_results
    return f"checked: {n:,} results, as many as DuckDB's batch join has; equal sums of hashes over the same data"


def table(by_side: Sequence[Sequence[Outcome]]) -> list[str]:
    """A line for each side, the medians over the rounds."""
    columns = {  # and their widths; the total comes after what is of one micro-batch
        "s/batch": 8,
        "× ours": 7,
        "CPU s": 7,
        "total s": 9,
        "× ours ": 8,
        "CPU s ": 7,
        "peak MB": 9,
        "JVM": 7,
        "Python": 7,
        "state rows": 12,
        "MB": 7,
        "disk MB": 8,
    }
    widths = columns.values()
    lines = [f"  {'':26s}" + "".join(f"{h.strip():>{w}s}" for h, w in columns.items())]
    first = by_side[0]
    for side in by_side:
        c = side[0].configuration
        steady = median(o.steady / f.steady for o, f in zip(side, first, strict=True))
        events = min(TOTAL, c.events)
        total = median(o.total(events) / f.total(events) for o, f in zip(side, first, strict=True))
        same = events == min(TOTAL, first[0].configuration.events)
        cells = [f"{middle(side, 'steady'):.2f}", f"{steady:.2f}", f"{middle(side, 'steady_processor'):.2f}"]
        # In a shared driver (quick) the time since its start says nothing.
        alone = bool(side[0].memory)
        cells += [f"{median(o.total(events) for o in side):.1f}", f"{total:.2f}"] if alone and same else ["–", "–"]
        for part in ("processor_seconds", "peak", "jvm", "python"):
            cells.append(f"{median(o.memory[part] for o in side):,.0f}" if alone else "–")
        cells += [f"{middle(side, 'state_rows'):,.0f}"]
        cells += [f"{middle(side, n) / MB:,.1f}" for n in ("state_bytes", "checkpoint_bytes")]
        lines.append(
            f"  {label(c, first[0].configuration):26s}"
            + "".join(f"{v:>{w}s}" for v, w in zip(cells, widths, strict=True))
        )
    return lines


def middle(side: Sequence[Outcome], name: str) -> float:
    return float(median(getattr(o, name) for o in side))


def label(c: Configuration, first: Configuration) -> str:
    """
    >>> ours = Configuration("three-way", "ours", 6_000_000, 500_000)
    >>> label(ours, ours), label(replace(ours, side="native", store="rocksdb", events=2_000_000), ours)
    ('ours', 'Spark, RocksDB (2.0 M)')
    """
    if c.side in OURS:
        form = "ours, paths" if c.side == "paths" else "ours"
        return form + (", one partition" if PARTITIONS in c.extra else "") + (", plain JVM" if c.plain else "")
    form = c.side.removeprefix("native").replace("-", ", ")
    store = ", RocksDB" if c.store == "rocksdb" else ""
    store += ", plain JVM" if c.plain else ", small heap" if c.lean else ""
    fewer = "" if c.events == first.events else f" ({c.events / 1e6:.1f} M)"
    return f"Spark{form}{store}{fewer}"


def settings(by_side: Sequence[Sequence[Outcome]]) -> str:
    """What all sides were set to alike, and their state stores."""
    found = [side[0].settings for side in by_side]
    alike = {k: v for k, v in found[0].items() if all(f.get(k) == v for f in found) and not k.startswith(UNIMPORTANT)}
    named = ", ".join(f"{k.removeprefix('spark.')}={v}" for k, v in sorted(alike.items()))
    stores = sorted({f[PROVIDER] for f in found})
    return f"settings of all: {named}; state stores: {', '.join(stores)}"


# Sixteen micro-batches: Java's compilers take the first eight or so to come to rest, on either side.
_LONG, _ALL, _FEW = 8_000_000, 6_000_000, 1_000_000
_MANY = 6_000_000  # sixty small ones: thirty are not enough for the compilers there
_LARGE = (Bound("steady", 5.0), Bound("total", 3.0), Bound("memory", 0.5))
_SMALL = (Bound("steady", 3.0),)
_JOINS = (
    Size(_LONG, 500_000, (("native", "hdfs", _LONG),), _LARGE),
    Size(_MANY, 100_000, (("native", "hdfs", _MANY),), _SMALL, one=True),
)

_LARGEST = 16_000_000
_AVERAGES = ("native", "native-folded", "native-panes")  # as one writes the query, and two ways to help Spark

THREE_WAY = Contest(
    "three-way",
    "three-way windowed join, 60 s, 100,000 keys, 2,500 events/s",
    "three-way",
    (
        Size(_LONG, 500_000, (("native", "hdfs", _LONG), ("native", "rocksdb", _FEW)), _LARGE, others=True),
        replace(_JOINS[1], peers=(*_JOINS[1].peers, ("native", "rocksdb", _FEW))),
    ),
)
FOUR_WAY = Contest("four-way", "four-way windowed join, 60 s, 100,000 keys, 2,500 events/s", "four-way", _JOINS)
CHAIN = Contest("chain", "chain join R.a = S.a, S.b = T.b, 60 s, 100,000 keys, 2,500 events/s", "chain", _JOINS)
MACD = Contest(
    "macd",
    "averages over 10 s and over 60 s for each of 200 symbols, every 2 s, joined; 3,333 trades/s",
    "macd",
    (
        Size(_ALL, 500_000, tuple((side, "hdfs", _ALL) for side in _AVERAGES), ()),
        # Spark's price of a micro-batch is a third of a second, whatever is in it: large ones show what rows cost.
        Size(_LARGEST, 2_000_000, (("native", "hdfs", _LARGEST),), (Bound("steady", 10.0, "native"),)),
    ),
    keys=200,
)
# Its streams are of different lengths and rates; Spark's own joins of five streams take long.
SKEWED = Contest(
    "skewed",
    "join of five streams, Zipf keys, rates and selectivities that drift; windows of up to 800 s",
    "skewed",
    (Size(_ALL, 500_000, (("native", "hdfs", _ALL),), (Bound("steady", 5.0),)),),
)
ALL = (THREE_WAY, FOUR_WAY, CHAIN, SKEWED, MACD)
