"""Windows in the spelling of Flink and Spark: the message has the user's query in our form, and that form runs."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline as ed

PAIRS = {
    # Flink's table functions, with and without TABLE( … ) and names of arguments.
    "SELECT window_start, sum(price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECONDS))"
    " GROUP BY window_start, window_end":
    "SELECT Wstream(window_start, sum(price)) FROM bids [TUMBLE 10 SECONDS] GROUP BY window_start, window_end",
    "SELECT auction, count(*) FROM HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECONDS, INTERVAL '6' SECONDS) b"
    " GROUP BY auction, window_end":
    "SELECT Wstream(auction, count(*)) FROM bids [HOP 6 SECONDS EVERY 2 SECONDS] b GROUP BY auction, window_end",
    "SELECT auction FROM TABLE(HOP(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '2' SECONDS,"
    " SIZE => INTERVAL '6' SECONDS, OFFSET => INTERVAL '1' SECONDS))":
    "SELECT Wstream(auction) FROM bids [HOP 6 SECONDS EVERY 2 SECONDS OFFSET 1 SECONDS]",
    "SELECT user, count(*) FROM TABLE(SESSION(TABLE bids PARTITION BY (user), DESCRIPTOR(ts), INTERVAL '5' SECONDS))"
    " GROUP BY user, window_start, window_end":
    "SELECT Wstream(user, count(*)) FROM bids [SESSION 5 SECONDS GAP PARTITION BY user]"
    " GROUP BY user, window_start, window_end",
    # What Flink grouped by before.
    "SELECT TUMBLE_START(ts, INTERVAL '5' SECOND), user, sum(price) FROM bids"
    " GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), user":
    "SELECT Wstream(window_start, user, sum(price)) FROM bids [TUMBLE 5 SECOND]"
    " GROUP BY window_start, window_end, user",
    "SELECT HOP_END(ts, INTERVAL '1' SECOND, INTERVAL '5' SECOND), sum(price) FROM bids"
    " GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '5' SECOND)":
    "SELECT Wstream(window_end, sum(price)) FROM bids [HOP 5 SECOND EVERY 1 SECOND] GROUP BY window_start, window_end",
    # Spark.
    "SELECT window, user, count(*) FROM bids GROUP BY window(ts, '10 seconds'), user":
    "SELECT Wstream(window_start, window_end, user, count(*)) FROM bids [TUMBLE 10 SECONDS]"
    " GROUP BY window_start, window_end, user",
    "SELECT window.start, b.user, count(*) AS n FROM bids AS b"
    " GROUP BY window(b.ts, '10 seconds', '5 seconds'), b.user":
    "SELECT Wstream(window_start, b.user, count(*) AS n) FROM bids [HOP 10 SECONDS EVERY 5 SECONDS] AS b"
    " GROUP BY window_start, window_end, b.user",
    "SELECT window(ts, '10 seconds').end AS e, count(*) FROM bids GROUP BY window(ts, '10 seconds')":
    "SELECT Wstream(window_end AS e, count(*)) FROM bids [TUMBLE 10 SECONDS] GROUP BY window_start, window_end",
    "SELECT window(ts, '10 seconds') AS w, count(*) FROM bids WHERE price > 1 GROUP BY w":
    "SELECT Wstream(window_start, window_end, count(*)) FROM bids [TUMBLE 10 SECONDS] WHERE price > 1"
    " GROUP BY window_start, window_end",
    "SELECT session_window.start, user, count(*) FROM bids GROUP BY session_window(ts, '5 seconds'), user":
    "SELECT Wstream(window_start, user, count(*)) FROM bids [SESSION 5 SECONDS GAP PARTITION BY user]"
    " GROUP BY window_start, window_end, user",
    # Sessions are made of the rows that WHERE keeps.
    "SELECT b.user, count(*) FROM bids b WHERE b.price > 1 GROUP BY session_window(ts, '5 seconds'), b.user":
    "SELECT Wstream(b.user, count(*)) FROM (SELECT * FROM bids b WHERE b.price > 1) [SESSION 5 SECONDS GAP"
    " PARTITION BY user] b GROUP BY window_start, window_end, b.user",
    # Below other queries; a stream operator that is there stays.
    "SELECT max(n) FROM (SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '4' SECONDS))"
    " GROUP BY auction) x":
    "SELECT Wstream(max(n)) FROM (SELECT count(*) AS n FROM bids [TUMBLE 4 SECONDS] GROUP BY auction) x",
    "SELECT Istream(count(*)) FROM bids GROUP BY window(ts, '10 seconds')":
    "SELECT Istream(count(*)) FROM bids [TUMBLE 10 SECONDS] GROUP BY window_start, window_end",
    "SELECT DISTINCT user FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '4' SECONDS)) UNION SELECT user FROM"
    " bids [TUMBLE 4 SECONDS]":
    "Wstream(SELECT DISTINCT user FROM bids [TUMBLE 4 SECONDS] UNION SELECT user FROM bids [TUMBLE 4 SECONDS])",
}  # fmt: skip


def session() -> Any:
    made = ed.Session()
    rows = [{"ts": t, "user": "xy"[t % 2], "auction": t % 3, "price": t} for t in (1, 2, 3, 7, 9, 16)]
    made.stream("bids", rows, timestamp="ts")
    return made


def refusal(text: str) -> ed.CqlError:
    with pytest.raises(ed.CqlError) as caught:
        session().query(text)
    return caught.value


@pytest.mark.parametrize("theirs", PAIRS)
def test_the_message_has_the_query_in_our_form(theirs: str) -> None:
    error = refusal(theirs)
    first, *query = error.message.split("\n")
    assert first == "a window stands in brackets behind its stream. Here the query is written:"
    assert [line.strip() for line in query] == [PAIRS[theirs]]
    assert error.span is not None
    assert (
        theirs[error.span.start : error.span.end]
        .upper()
        .startswith(("TABLE(", "HOP(", "TUMBLE(", "WINDOW(", "SESSION_WINDOW("))
    )
    assert session().query(PAIRS[theirs]).to_arrow().num_rows > 0


def test_lines_stay_as_they_are_written() -> None:
    error = refusal("SELECT user,\n       count(*)\nFROM   bids\nGROUP  BY window(ts, '10 seconds'), user")
    assert error.message.split("\n")[1:] == [
        "  SELECT Wstream(user,",
        "         count(*))",
        "  FROM   bids [TUMBLE 10 SECONDS]",
        "  GROUP  BY window_start, window_end, user",
    ]
    assert error.line == 4


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("SELECT * FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS))",
         "CUMULATE is not supported: [TUMBLE 10 SECONDS]"),
        ("SELECT * FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECONDS))",
         "write the window behind the stream, in brackets: [HOP 60 SECONDS EVERY 2 SECONDS]."),
        ("SELECT count(*) FROM bids a, bids b WHERE a.user = b.user GROUP BY session_window(a.ts, '5 seconds')",
         "sessions are made of the rows that WHERE keeps"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_refused_with_the_remedy(theirs: str, said: str) -> None:
    assert refusal(theirs).message.startswith(said)


@pytest.mark.parametrize("text", ["SELECT a.price AS session FROM bids [TUMBLE 4] a", "SELECT price AS hop FROM bids",
                                  "SELECT window(price, user) AS n FROM bids"])  # fmt: skip
def test_other_uses_of_these_words_are_left_alone(text: str) -> None:
    made = session()
    made.function("window", lambda a, b: a, returns="bigint")
    assert made.query(text).to_arrow().num_rows > 0
