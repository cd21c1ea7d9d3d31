# ruff: noqa: E501  (queries are compared more easily where each is on one line)
"""What users of Flink, Spark and other engines write: it works, or one message has the query in our form, which is
bound here, too."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed

OVER = "OVER (PARTITION BY user ORDER BY ts)"

WORKS = {
    "SELECT user, sum(price) OVER w AS s FROM bids WINDOW w AS (PARTITION BY user ORDER BY ts ROWS 2 PRECEDING)":
    "SELECT user, sum(price) OVER (PARTITION BY user ORDER BY ts ROWS 2 PRECEDING) AS s FROM bids",
    "SELECT sum(price) OVER (w ROWS 2 PRECEDING) AS s, LAG(price) OVER w AS l FROM bids"
    " WINDOW w AS (PARTITION BY user ORDER BY ts)":
    f"SELECT sum(price) OVER (PARTITION BY user ORDER BY ts ROWS 2 PRECEDING) AS s, LAG(price) {OVER} AS l FROM bids",
    "SELECT count(*) OVER v AS s FROM bids WINDOW w AS (PARTITION BY user ORDER BY ts), v AS (w ROWS 1 PRECEDING)":
    "SELECT count(*) OVER (PARTITION BY user ORDER BY ts ROWS 1 PRECEDING) AS s FROM bids",
    "SELECT * FROM (SELECT user, RANK() OVER w AS r FROM bids WINDOW w AS (ORDER BY price DESC)) x WHERE r <= 2":
    "SELECT * FROM (SELECT user, RANK() OVER (ORDER BY price DESC) AS r FROM bids) x WHERE r <= 2",
    "SELECT * FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) <= 2":
    "SELECT ts, user, auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC)"
    " AS r FROM bids) WHERE r <= 2",
    "SELECT user, RANK() OVER (ORDER BY price DESC) AS r FROM bids [RANGE 5] WHERE price > 1 QUALIFY r BETWEEN 1 AND 2":
    "SELECT * FROM (SELECT user, RANK() OVER (ORDER BY price DESC) AS r FROM bids [RANGE 5] WHERE price > 1)"
    " WHERE r BETWEEN 1 AND 2",
    "SELECT auction, sum(price) AS s FROM bids GROUP BY auction QUALIFY ROW_NUMBER() OVER (ORDER BY sum(price) DESC) = 1":
    "SELECT auction, s FROM (SELECT auction, sum(price) AS s, ROW_NUMBER() OVER (ORDER BY sum(price) DESC) AS r FROM bids"
    " GROUP BY auction) WHERE r = 1",
    f"SELECT user, price FROM bids QUALIFY price > LAG(price) {OVER}":
    f"SELECT user, price FROM (SELECT user, price, LAG(price) {OVER} AS l FROM bids) WHERE price > l",
    "SELECT DISTINCT user FROM bids QUALIFY ROW_NUMBER() OVER (ORDER BY price) <= 3":
    "SELECT DISTINCT user FROM (SELECT user, ROW_NUMBER() OVER (ORDER BY price) AS r FROM bids) WHERE r <= 3",
    "SELECT * EXCEPT (price, TS) FROM bids": "SELECT user, auction FROM bids",
    "SELECT b.* EXCEPT (TS), a.id FROM bids [RANGE 2] b, auctions [RANGE 2] a":
    "SELECT b.user, b.auction, b.price, a.id FROM bids [RANGE 2] b, auctions [RANGE 2] a",
    "SELECT user FROM bids ORDER BY price DESC FETCH FIRST 3 ROWS ONLY":
    "SELECT user FROM bids ORDER BY price DESC LIMIT 3",
    f"SELECT LAG(price) RESPECT NULLS {OVER} AS l FROM bids": f"SELECT LAG(price) {OVER} AS l FROM bids",
    f"SELECT LAG(price RESPECT NULLS) {OVER} AS l FROM bids": f"SELECT LAG(price) {OVER} AS l FROM bids",
    "SELECT /*+ BROADCAST(b) */ user FROM bids b /*+ OPTIONS('a' = 'b') */": "SELECT user FROM bids b",
    "SELECT user, price::double AS p FROM bids": "SELECT user, CAST(price AS double) AS p FROM bids",
}  # fmt: skip

_BESIDE = "SELECT bids.*, w.v FROM bids, (SELECT user, SUM(price) AS v FROM bids [RANGE {}] GROUP BY user) AS w"
_NEAREST = (
    "SELECT bids.*, v.price AS value FROM bids {}ASOF JOIN (SELECT * FROM bids WHERE price IS NOT NULL) v"
    " ON bids.user = v.user AND v.ts {} bids.ts"
)
_OF = "(SELECT user, count(*) AS n FROM bids GROUP BY user) c WHERE r.user = c.user"
_AS_OF = "SELECT b.user, r.rate FROM bids b {}ASOF JOIN rates r ON b.user = r.currency AND r.ts <= b.ts"
_TUMBLE = "SELECT Wstream(user, count(*)) FROM bids [TUMBLE 10 SECONDS] GROUP BY user"

#: their query, and ours as the message has it
SHOWN = {
    f"SELECT LAG(price) IGNORE NULLS {OVER} FROM bids": _NEAREST.format("LEFT ", "<"),
    f"SELECT LAG(price IGNORE NULLS) {OVER} FROM bids": _NEAREST.format("LEFT ", "<"),
    f"SELECT LEAD(price) IGNORE NULLS {OVER} FROM bids": _NEAREST.format("", ">"),
    "SELECT LAST_VALUE(price) IGNORE NULLS OVER (PARTITION BY user ORDER BY ts ROWS 3 PRECEDING) FROM bids":
    _NEAREST.format("LEFT ", "<="),
    "SELECT last_value(price, true) OVER (PARTITION BY user ORDER BY ts ROWS 3 PRECEDING) FROM bids":
    _NEAREST.format("LEFT ", "<="),
    "SELECT sum(price) OVER (PARTITION BY user ORDER BY ts RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) FROM bids":
    f"{_BESIDE.format(5)} WHERE bids.user = w.user",
    "SELECT sum(price) OVER (PARTITION BY user ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW)"
    " FROM bids": f"{_BESIDE.format('5 SECOND')} WHERE bids.user = w.user",
    "SELECT PERCENT_RANK() OVER (PARTITION BY user ORDER BY price) FROM bids":
    "SELECT r.*, (r.place - 1) / greatest(c.n - 1, 1) AS percent_rank FROM (SELECT *, RANK() OVER (PARTITION BY user"
    f" ORDER BY price) AS place FROM bids) r, {_OF}",
    "SELECT CUME_DIST() OVER (PARTITION BY user ORDER BY price) FROM bids":
    "SELECT r.*, (c.n - r.place + 1) / c.n AS cume_dist FROM (SELECT *, RANK() OVER (PARTITION BY user ORDER BY price"
    f" DESC) AS place FROM bids) r, {_OF}",
    "SELECT NTILE(4) OVER (PARTITION BY user ORDER BY price) FROM bids":
    "SELECT r.*, CASE WHEN r.place <= c.n % 4 * (c.n div 4 + 1) THEN 1 + (r.place - 1) div (c.n div 4 + 1) ELSE 4 - (c.n -"
    " r.place) div greatest(c.n div 4, 1) END AS ntile FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user ORDER BY"
    f" price) AS place FROM bids) r, {_OF}",
    "SELECT NTH_VALUE(price, 2) OVER (PARTITION BY user ORDER BY ts ROWS UNBOUNDED PRECEDING) FROM bids":
    "SELECT * FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY user ORDER BY ts) = 2",
    "SELECT * FROM bids PIVOT (sum(price) FOR user IN ('x', 'y' AS z))":
    "SELECT sum(price) FILTER (WHERE user = 'x') AS x, sum(price) FILTER (WHERE user = 'y') AS z FROM bids",
    "SELECT user, tag FROM posts LATERAL VIEW explode(tags) t AS tag": "SELECT user, explode(tags) AS tag FROM posts",
    "SELECT user, t.tag FROM posts LATERAL VIEW OUTER explode(tags) t AS tag WHERE ts > 1":
    "SELECT user, explode(tags) AS tag FROM posts WHERE ts > 1",
    "SELECT b.user, t.tag FROM posts b CROSS JOIN UNNEST(tags) AS t(tag)":
    "SELECT b.user, explode(tags) AS tag FROM posts b",
    "SELECT user, tag FROM posts, LATERAL TABLE(f(tags)) AS t(tag)": "SELECT user, explode(tags) AS tag FROM posts",
    "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES A.price AS p PATTERN (A B+) DEFINE B AS"
    " B.price > A.price)":
    f"SELECT * FROM (SELECT *, LAG(price) {OVER} AS before FROM bids) WHERE price > before",
    "SELECT b.user, r.rate FROM bids b JOIN rates FOR SYSTEM_TIME AS OF b.ts AS r ON b.user = r.currency":
    _AS_OF.format(""),
    "SELECT b.user, r.rate FROM bids b LEFT JOIN rates FOR SYSTEM_TIME AS OF b.ts r ON b.user = r.currency":
    _AS_OF.format("LEFT "),
    "SELECT b.user, r.rate FROM bids b, LATERAL TABLE (rates(b.ts)) AS r WHERE b.user = r.currency":
    "SELECT b.user, r.rate FROM bids b ASOF JOIN rates r ON r.ts <= b.ts AND b.user = r.currency",
    "SELECT TOP 3 * FROM bids ORDER BY price DESC": "SELECT * FROM bids ORDER BY price DESC LIMIT 3",
    "SELECT user, percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM bids GROUP BY user":
    "SELECT user, approx_percentile(price, 0.5) FROM bids GROUP BY user",
    "SELECT DISTINCT ON (user) user, price FROM bids ORDER BY user, price":
    "SELECT user, price FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY user ORDER BY user, price) = 1",
    "SELECT * FROM bids [RANGE 5] b LEFT SEMI JOIN auctions [RANGE 5] a ON b.auction = a.id WHERE b.price > 1":
    "SELECT * FROM bids [RANGE 5] b WHERE EXISTS (SELECT 1 AS one FROM auctions [RANGE 5] a WHERE b.auction = a.id) AND"
    " b.price > 1",
    "SELECT * FROM bids b LEFT ANTI JOIN auctions a ON b.auction = a.id":
    "SELECT * FROM bids b WHERE NOT EXISTS (SELECT 1 AS one FROM auctions a WHERE b.auction = a.id)",
    "SELECT user, max_by(auction, price) FROM bids GROUP BY user":
    "SELECT user, auction FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY user ORDER BY price DESC) = 1",
    "SELECT arg_min(user, price) FROM bids": "SELECT user FROM bids QUALIFY ROW_NUMBER() OVER (ORDER BY price NULLS LAST) = 1",
    "SELECT user FROM bids WHERE price > ANY (SELECT price FROM bids [RANGE 5])":
    "SELECT user FROM bids WHERE price > (SELECT min(price) FROM bids [RANGE 5])",
    "SELECT user FROM bids WHERE price >= ALL (SELECT price FROM bids [RANGE 5])":
    "SELECT user FROM bids WHERE price >= (SELECT max(price) FROM bids [RANGE 5])",
    "SELECT user, count(*) FROM bids WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY user EMIT CHANGES": _TUMBLE,
    "SELECT user, count(*) FROM bids WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS) GROUP BY user":
    "SELECT Wstream(user, count(*)) FROM bids [HOP 10 SECONDS EVERY 5 SECONDS] GROUP BY user",
    "SELECT user, count(*) FROM bids WINDOW SESSION (5 SECONDS) GROUP BY user":
    "SELECT Wstream(user, count(*)) FROM bids [SESSION 5 SECONDS GAP PARTITION BY user] GROUP BY user",
    "SELECT user, count(*) FROM bids TIMESTAMP BY ts GROUP BY user, TumblingWindow(second, 10)": f"{_TUMBLE}, window_end",
    "SELECT user, count(*) FROM TUMBLE(bids, ts, INTERVAL '10 seconds') GROUP BY user EMIT ON WINDOW CLOSE": _TUMBLE,
    "SELECT user, count(*) FROM HOP(bids, ts, INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY user":
    "SELECT Wstream(user, count(*)) FROM bids [HOP 10 SECONDS EVERY 2 SECONDS] GROUP BY user",
}  # fmt: skip

#: their query, and what is said
SAID = {
    "SELECT user, first(price) IGNORE NULLS FROM bids GROUP BY user": "keep the rows that have a value, WHERE price IS NOT",
    f"SELECT FIRST_VALUE(price) IGNORE NULLS {OVER} FROM bids": "WHERE price IS NOT NULL QUALIFY ROW_NUMBER() OVER (PARTITION BY user ORDER BY ts) = 1",
    f"SELECT LAG(price, 2) IGNORE NULLS {OVER} FROM bids": "LAG(price) alone could be an as-of join",
    "SELECT NTILE(4) OVER (PARTITION BY user ORDER BY price) FROM bids": "gives the same, where user is not NULL: ",
    "SELECT sum(price) IGNORE NULLS FROM bids": "IGNORE NULLS is not supported: keep the rows with a value",
    "SELECT sum(price) OVER w FROM bids": "no WINDOW of this query is called 'w'",
    "SELECT sum(price) OVER w FROM bids WINDOW w AS (ORDER BY ts), w AS (ORDER BY ts)": "WINDOW defines 'w' twice",
    "SELECT user FROM bids QUALIFY price > 2": "QUALIFY keeps rows by a rank or another value with OVER (…)",
    "SELECT sum(price) OVER (PARTITION BY user ORDER BY ts GROUPS 1 PRECEDING) FROM bids": "GROUPS is not supported: count",
    "SELECT sum(price) OVER (ORDER BY ts RANGE UNBOUNDED PRECEDING) FROM bids": "RANGE would count the rows of one instant",
    "SELECT sum(price) OVER (PARTITION BY user ORDER BY ts) FROM bids": "say which rows: SUM(price) OVER (PARTITION BY",
    "SELECT * FROM bids UNPIVOT (v FOR k IN (price, auction))": "UNPIVOT is not supported: write one SELECT for each",
    "SELECT b.user FROM bids b, LATERAL (SELECT rate FROM rates r WHERE r.currency = b.user) AS r":
    "a query in FROM does not read the sources beside it",
    "SELECT window.start FROM bids WATERMARK ts DELAY OF INTERVAL 7 SECONDS GROUP BY window(ts, '10 seconds')":
    "a watermark is said once, where the stream is declared: CREATE STREAM … SLACK 7 SECONDS",
    "SELECT count(*) FROM bids.withWatermark('ts', '9 seconds')": "CREATE STREAM … SLACK 9 SECONDS",
    "SELECT TUMBLE_PROCTIME(ts, INTERVAL '5' SECOND) FROM bids GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)":
    "TUMBLE_PROCTIME is not supported: a stream that is declared WITH (arrival = true)",
    "SELECT PROCTIME() FROM bids": "PROCTIME is not supported: a stream that is declared WITH (arrival = true)",
    "SELECT user, count(*) FROM bids GROUP BY ROLLUP (user, auction)": "ROLLUP is not supported: write one query for each",
    "SELECT user, count(*) FROM bids GROUP BY user WITH ROLLUP": "ROLLUP is not supported: write one query for each",
    "SELECT user, count(*) FROM bids GROUP BY CUBE (user, auction)": "CUBE is not supported: write one query for each",
    "SELECT count(*) FROM bids GROUP BY GROUPING SETS ((user), (auction))": "GROUPING SETS is not supported: write one",
    "SELECT user, count(*) FROM bids GROUP BY ALL": "GROUP BY ALL is not needed",
    "SELECT listagg(user, ',') WITHIN GROUP (ORDER BY ts) FROM bids": "declare an aggregate of your own with session.agg",
    "SELECT collect_list(price) FROM bids": "declare an aggregate of your own with session.aggregate('collect_list', …)",
    "SELECT user FROM bids WHERE ts > now() - INTERVAL '10' SECOND": "are a window on the stream, bids [RANGE 10 SECOND].",
    "SELECT user FROM bids WHERE ts >= CURRENT_TIMESTAMP - INTERVAL 10 SECONDS": "on the stream, bids [RANGE 10 SECONDS].",
    "SELECT user FROM bids TABLESAMPLE (10 PERCENT)": "keep a part of the rows by a condition",
    "SELECT * FROM bids b NATURAL JOIN auctions a": "NATURAL JOIN is not supported: write ON or USING.",
    "SELECT * REPLACE (price * 2 AS price) FROM bids": "'*' does not take REPLACE or RENAME: write the columns that stay",
    "SELECT * EXCEPT (prize) FROM bids": "unknown column 'prize'. Did you mean 'price'?",
    "SELECT user FROM bids SORT BY price": "its first n rows are those of ORDER BY … LIMIT n.",
    "SELECT user FROM bids CLUSTER BY user": "its first n rows are those of ORDER BY … LIMIT n.",
    "SELECT STREAM user FROM bids": "Leave STREAM out.",
    "SELECT user, max(price) FROM bids GROUP BY user EMIT CHANGES": "EMIT is not needed",
    "SELECT STRUCT(user, price) FROM bids": "STRUCT is not supported: select its fields as columns.",
    "SELECT time_bucket('10 seconds', ts), count(*) FROM bids GROUP BY 1": "bids [TUMBLE 10 SECONDS]",
    "SELECT b.user FROM bids [RANGE 9] b JOIN auctions [RANGE 9] a ON b.ts < a.ts + INTERVAL '5' SECOND":
    "an integer time counts ticks, so write a number without a unit.",
    "SELECT b.user FROM bids b JOIN auctions a ON b.auction = a.id": "b and a are joined without windows",
    "INSERT INTO sink SELECT * FROM bids": "expected the path to write to, as in 'results.parquet', in quotes",
    "CREATE TABLE x (a INT) WITH ('connector' = 'kafka')": "A table whose rows only come is a STREAM",
    "SELECT user FROM bids ORDER BY price FETCH FIRST 3 ROWS WITH TIES": "for ties, write RANK() … <= n.",
}  # fmt: skip


def session() -> Any:
    made = ed.Session()
    bids = [(t, "xy"[t % 2], t % 3, None if t == 7 else t * 7 % 10) for t in (1, 2, 3, 4, 5, 7, 9, 16)]
    rows = [dict(zip(("ts", "user", "auction", "price"), r, strict=True)) for r in bids]
    made.stream("bids", pa.Table.from_pylist(rows), timestamp="ts")
    made.stream("posts", pa.table({"ts": [1, 2], "user": ["x", "y"], "tags": [["a"], ["a", "b"]]}), timestamp="ts")
    rates = [{"ts": t, "currency": "xy"[t % 2], "rate": t * 1.5} for t in (1, 2, 7)]
    made.stream("rates", rates, timestamp="ts")
    made.stream("auctions", [{"ts": t, "id": t % 3, "seller": "s"} for t in (1, 2, 3)], timestamp="ts")
    return made


@pytest.fixture(scope="module")
def shared() -> Any:
    return session()


def answer(text: str) -> Counter[Any]:
    return Counter(tuple(r.values()) for r in session().query(text).to_arrow().to_pylist())


@pytest.mark.parametrize("theirs", WORKS)
def test_it_works_and_means_the_same(theirs: str) -> None:
    found = answer(theirs)
    assert found == answer(WORKS[theirs])
    assert found


@pytest.mark.parametrize("theirs", SHOWN)
def test_the_message_has_the_query_in_our_form(shared: Any, theirs: str) -> None:
    with pytest.raises(ed.CqlError) as caught:
        shared.query(theirs)
    shown = " ".join(caught.value.message.split())
    assert SHOWN[theirs] in shown
    assert shown.endswith((SHOWN[theirs], f"{SHOWN[theirs]}."))
    assert caught.value.span is not None
    shared.query(SHOWN[theirs])  # it is bound


@pytest.mark.parametrize("theirs", SAID)
def test_one_sentence_says_what_to_write(shared: Any, theirs: str) -> None:
    with pytest.raises(ed.CqlError) as caught:
        shared.query(theirs)
    assert SAID[theirs] in caught.value.message
    assert caught.value.message.endswith((".", "?", ").")) and "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["SELECT price AS top, user AS emit FROM bids", "SELECT user AS qualify FROM bids pivot",
                                  "SELECT watermark.user FROM bids watermark"])  # fmt: skip
def test_other_uses_of_these_words_are_left_alone(shared: Any, text: str) -> None:
    shared.query(text)


def test_a_mistake_beside_such_words_keeps_its_message(shared: Any) -> None:
    with pytest.raises(ed.CqlError, match=re.escape("unknown column 'prise'. Did you mean 'price'?")):
        shared.query("SELECT prise AS top FROM bids")


@pytest.mark.parametrize("function", ["NTILE(4)", "PERCENT_RANK()", "CUME_DIST()"])
@pytest.mark.parametrize("rows", [1, 3, 4, 6, 11, 16])
def test_ranks_that_need_the_size_of_a_partition_are_what_is_shown(function: str, rows: int) -> None:
    made = ed.Session()
    given = pa.table({"ts": range(rows), "k": [t % 2 for t in range(rows)], "x": [t * 7 % 5 for t in range(rows)]})
    made.stream("S", given, timestamp="ts")
    value = f"{function} OVER (PARTITION BY k ORDER BY x{', ts' if 'NTILE' in function else ''}) AS v"
    with pytest.raises(ed.CqlError) as refused:
        made.query(f"SELECT {value} FROM S")
    shown = re.search(r"SELECT r\..*(?=\.$)", refused.value.message)
    assert shown is not None
    ours: Counter[Any] = Counter()
    for r in made.query(shown[0]).to_arrow().to_pylist():
        ours[r["ts"], r[function.partition("(")[0].lower()]] += r["_sign"]
    assert +ours == Counter(duckdb.sql(f"SELECT ts, {value} FROM given").fetchall())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("LAG(price)", "rows of one timestamp do not see each other. A row whose key is NULL has none."),
        ("LEAD(price)", "do not see each other, and a row comes with its value, or never. A row whose key is NULL"),
        ("LAST_VALUE(price)", "a row sees all rows of its timestamp, and values of any age (WITHIN bounds it)."),
    ],
)
def test_what_an_as_of_join_does_otherwise_is_said(call: str, told: str, shared: Any) -> None:
    with pytest.raises(ed.CqlError, match=re.escape(told)):
        shared.query(f"SELECT {call} IGNORE NULLS {OVER} FROM bids")
