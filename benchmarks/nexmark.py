"""Nexmark's queries q0 to q22 over 1 million events, beside DuckDB, which answers each as one batch over the same
files.

The texts are those of ``examples/nexmark``. DuckDB sees all rows at once and gives the last answer; we give every
change of it on the way. Compared is processor time of both, with one thread for DuckDB.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import HERE, Limit, Options, Paths, Report, cached, timed

EVENTS = 1_000_000
RATE = 10_000.0
BOUND = 3.0  # our processor time over DuckDB's
STREAMS = ("person", "auction", "bid", "side_input")
EXAMPLES = HERE.parent / "examples" / "nexmark"

_WINNING = """SELECT a.id, a.seller, a.category, a.expires, b.bidder, b.price, b.dateTime AS sold,
  row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) AS place
  FROM auction a JOIN bid b ON a.id = b.auction WHERE b.dateTime BETWEEN a.dateTime AND a.expires"""
_TUMBLE = "time_bucket(INTERVAL 10 SECONDS, dateTime)"
_SESSIONS = """SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECONDS FROM (
  SELECT *, sum(first) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session FROM (
    SELECT bidder, dateTime, CASE WHEN dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
      < INTERVAL 10 SECONDS THEN 0 ELSE 1 END AS first FROM bid)) GROUP BY bidder, session"""

# What DuckDB says otherwise. All other texts are ours, without windows and operators, see ``theirs``.
DUCKDB: Mapping[str, str] = {
    "q5": """WITH counts AS (
      SELECT auction, window_end, count(*) AS bids FROM (
        SELECT auction, time_bucket(INTERVAL 2 SECONDS, dateTime) + INTERVAL 2 SECONDS * (1 + unnest(range(5)))
          AS window_end FROM bid) GROUP BY auction, window_end),
      most AS (SELECT window_end, max(bids) AS bids FROM counts GROUP BY window_end)
      SELECT c.auction, c.bids, c.window_end FROM counts c
      JOIN most m ON c.window_end = m.window_end AND c.bids = m.bids""",
    "q7": f"""SELECT auction, price, bidder, dateTime, extra FROM bid JOIN (
      SELECT {_TUMBLE} AS w, max(price) AS most FROM bid GROUP BY w) ON {_TUMBLE} = w AND price = most""",
    "q8": f"""SELECT p.id, p.name, p.w FROM (SELECT id, name, {_TUMBLE} AS w FROM person) p
      JOIN (SELECT DISTINCT seller, {_TUMBLE} AS w FROM auction) a ON p.id = a.seller AND p.w = a.w""",
    "q11": _SESSIONS,
    "q12": "SELECT bidder, count(*) FROM bid GROUP BY bidder",  # there is no arrival in a batch
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM (
      SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place FROM bid)
      WHERE place = 1""",
    "q19": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime)
      AS place FROM bid) WHERE place <= 10""",
}


@dataclass(frozen=True, slots=True)
class Example:
    """One job of ``examples/nexmark``: its title and its query; the sources are put in by whoever runs it."""

    name: str
    title: str
    query: str
    arrival: bool  # stamped when read

    @property
    def streams(self) -> list[str]:
        return [s for s in STREAMS if re.search(rf"\b{s}\b", self.query)]

    @property
    def theirs(self) -> str:
        """The text for DuckDB."""
        if self.name in DUCKDB:
            return DUCKDB[self.name]
        text = re.sub(r" \[[^\]]*\]", "", self.query)
        text = re.sub(r"date_format\((\w+), 'yyyy-MM-dd'\)", r"strftime(\1, '%Y-%m-%d')", text)
        return re.sub(r"date_format\((\w+), 'HH:mm'\)", r"strftime(\1, '%H:%M')", text)


def examples(folder: Path = EXAMPLES) -> list[Example]:
    """The jobs, in the order of their numbers."""
    found = []
    for path in sorted(folder.glob("q*.cql"), key=lambda p: int(p.stem[1:])):
        text = path.read_text(encoding="utf-8")
        head, query = text.split("\n\n", 1)
        title = head.splitlines()[1].removeprefix("-- ")
        found.append(Example(path.stem, title, query.strip().removesuffix(";"), "arrival" in head))
    return found


def last(example: Example, changes: Any) -> Counter[Any]:
    """The rows of a stream, or those that signed changes lead to; times and signs are taken off."""
    names = [n for n in changes.column_names if n not in ("_time", "_sign")]
    signs = changes["_sign"].to_pylist() if "_sign" in changes.column_names else [1] * len(changes)
    if example.arrival:  # windows by the clock differ from run to run, their sums do not
        sums: Counter[Any] = Counter()
        for bidder, bids in zip(changes["bidder"].to_pylist(), changes["bids"].to_pylist(), strict=True):
            sums[bidder] += bids
        return Counter(sums.items())
    rows: Counter[Any] = Counter()
    columns = [changes[n].to_pylist() for n in names]
    for sign, *row in zip(signs, *columns, strict=True):
        rows[comparable(row)] += sign
    return +rows


def comparable(row: Any) -> tuple[Any, ...]:
    """Doubles to twelve digits: DuckDB's averages are rounded at another place, and its 0.908 is a decimal."""
    numbers = (float(v) if isinstance(v, Decimal) else v for v in row)
    return tuple(float(f"{v:.12g}") if isinstance(v, float) and math.isfinite(v) else v for v in numbers)


def data(events: int, rate: float = RATE) -> Paths:
    def make() -> dict[str, Any]:
        from eddyline.datasets.nexmark import nexmark

        return {s: nexmark(s, events=events, rate=rate).table() for s in STREAMS}

    return cached(f"nexmark-{events}-{rate:g}", make)


def ours(example: Example, paths: Paths) -> tuple[Any, Any]:
    """The query, and its answer."""
    import eddyline as ed

    session = ed.Session()
    for stream in example.streams:
        if stream == "side_input":
            session.relation(stream, str(paths[stream]))
        elif example.arrival:
            session.stream(stream, str(paths[stream]), arrival=True)
        else:
            session.stream(stream, str(paths[stream]), timestamp="dateTime")
    query = session.query(example.query)
    return query, query.to_arrow()


def duckdb_batch(example: Example, paths: Paths) -> Any:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream in example.streams:
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{paths[stream]}')")
        return connection.sql(example.theirs).to_arrow_table()


@dataclass(frozen=True, slots=True)
class Nexmark:
    name: str = "nexmark"
    title: str = "Nexmark's q0 to q22, 1 M events, beside DuckDB's batch: processor time"

    def run(self, options: Options) -> Report:
        events = options.scaled(EVENTS)
        paths, part = data(events), data(events // 10)
        report = Report(self.name, self.title)
        report.lines.append(
            f"  {'':5s}{'ours':>8s} {'DuckDB':>8s} {'ratio':>6s} {'events/s':>10s} {'state rows':>11s} {'MB':>7s} "
            f"{'results':>10s}"
        )
        found = []
        for example in examples():
            same = last(example, ours(example, part)[1])
            if same != Counter(comparable(r.values()) for r in duckdb_batch(example, part).to_pylist()):
                raise AssertionError(f"{example.name}: the last answer is not DuckDB's")
            query, answer = ours(example, paths)
            state, results = query.report()["state"], len(answer)
            del query, answer
            mine, batches = [], []
            for _ in range(options.rounds):
                mine.append(timed(partial(ours, example, paths))[1])
                batches.append(timed(partial(duckdb_batch, example, paths))[1])
            ratio = median(a / b for a, b in zip(mine, batches, strict=True))
            rate = events / median(mine)
            report.lines.append(
                f"  {example.name:5s}{median(mine):8.3f} {median(batches):8.3f} {ratio:6.2f} {rate:10,.0f} "
                f"{state['peak_rows']:11,} {state['peak_bytes'] / 1e6:7.1f} {results:10,}"
            )
            report.limits.append(Limit(f"{example.name}: processor time against DuckDB's batch", ratio, BOUND))
            found.append(
                {"query": example.name, "ours": mine, "duckdb": batches, "ratio": ratio, "events_a_second": rate}
                | {"state": dict(state), "results": results}
            )
        report.lines.append("  checked: the last answer of each query over a tenth of the events, against DuckDB")
        report.details = {"events": events, "queries": found}
        return report


BENCHMARK = Nexmark()
