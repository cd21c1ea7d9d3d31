"""Nexmark in Spark's own Structured Streaming: what it can run, in the fastest form found, and what it refuses.

Queries without windows, and joins over all of both streams, are our texts with the brackets taken off: Spark reads the
rest as it stands. Windows and sessions are grouped by, and what is compared with a window's best row is joined with it.
``update`` queries give each group that changed once a micro-batch, where ours gives every change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.nexmark import Example


@dataclass(frozen=True, slots=True)
class Native:
    """``text`` replaces ours; ``key``: how many of the first columns of an ``update`` name the group."""

    text: str | None = None
    mode: Literal["append", "update"] = "append"
    key: int = 0
    remark: str = ""

    def sql(self, example: Example) -> str:
        """
        >>> Native().sql(Example("q2", "", "SELECT a FROM bid [ROWS UNBOUNDED] b WHERE a > 1", False))
        'SELECT a FROM bid b WHERE a > 1'
        """
        return self.text or re.sub(r" \[[^\]]*\]", "", example.query)


_Q5 = """SELECT best.auction, best.bids, window.end AS window_end FROM (
  SELECT window, explode(filter(every, x -> x.bids = most)) AS best FROM (
    SELECT window, max(bids) AS most, collect_list(struct(auction, bids)) AS every FROM (
      SELECT auction, window, count(*) AS bids FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds'))
    GROUP BY window))"""
_Q7 = """SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN (
  SELECT window_time(window) AS last, most FROM (
    SELECT window, max(price) AS most FROM bid GROUP BY window(dateTime, '10 seconds'))) m
ON b.price = m.most AND b.dateTime <= m.last AND b.dateTime > m.last - INTERVAL 10 SECONDS"""
_Q8 = """SELECT id, name, start FROM (
  SELECT id, name, window.start AS start, window_time(window) AS last FROM (
    SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds'))) p
JOIN (SELECT seller, window_time(window) AS also FROM (
    SELECT seller, window FROM auction GROUP BY seller, window(dateTime, '10 seconds'))) a
ON p.id = a.seller AND p.last = a.also"""
_Q11 = """SELECT bidder, count(*) AS bids, session_window.start AS window_start, session_window.end AS window_end
FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')"""
_Q12 = """SELECT bidder, count(*) AS bids, window.start AS window_start, window.end AS window_end
FROM bid GROUP BY bidder, window(dateTime, '10 seconds')"""
_Q18 = """SELECT auction, bidder, best.price, best.channel, best.url, best.dateTime, best.extra FROM (
  SELECT auction, bidder, max_by(struct(price, channel, url, dateTime, extra), dateTime) AS best
  FROM bid GROUP BY auction, bidder)"""

NATIVE: Mapping[str, Native] = {
    **{q: Native() for q in ("q0", "q1", "q2", "q10", "q14", "q21", "q22")},
    "q3": Native(remark="a join without a bound on time, as ours"),
    "q5": Native(_Q5, remark="two aggregates, one above the other; the best are taken out of a list"),
    "q7": Native(_Q7, remark="an aggregate, joined with the bids of its window"),
    "q8": Native(_Q8, remark="two aggregates, joined"),
    "q11": Native(_Q11),
    "q12": Native(_Q12, remark="by event time, on all sides"),
    "q13": Native(remark="with a static table"),
    "q17": Native(mode="update", key=2, remark="update mode"),
    "q18": Native(_Q18, mode="update", key=2, remark="update mode, as an aggregate max_by"),
    "q20": Native(remark="a join without a bound on time, as ours"),
}

#: What Spark's streaming refuses, and what it says.
REFUSED: Mapping[str, str] = {
    "q4": "an aggregate of an aggregate without windows",
    "q6": "ROW_NUMBER on a stream",
    "q9": "ROW_NUMBER on a stream",
    "q15": "count(DISTINCT …) on a stream",
    "q16": "count(DISTINCT …) on a stream",
    "q19": "ROW_NUMBER on a stream",
}
