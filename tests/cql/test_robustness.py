"""Whatever the text, the answer is a bound query or one clear error with a place."""

from __future__ import annotations

import random

import pytest

from eddyline.core.errors import CqlError
from eddyline.cql import bind
from tests.cql.build import make_catalog

CORPUS = [
    "SELECT Istream(S.a, count(*) AS n) FROM S [RANGE 10 minutes SLIDE 1 minute], R [ROWS 5] AS r "
    "WHERE S.a = r.a AND S.b > 3 GROUP BY S.a HAVING count(*) > 2",
    "SELECT * FROM S WHERE S IN (SELECT a, c, 'x', t FROM R [PARTITION BY a ROWS 10,000]) AND b BETWEEN 1 AND 2",
    "q: INSERT INTO 'x' SELECT DISTINCT a FROM S UNION ALL SELECT c FROM R WITH (filters = 'sweep', n = -1.5)",
    "SELECT CASE WHEN a > 1 THEN CAST(b AS int) ELSE NULL END AS x, upper(name) || 'y' FROM S LEFT JOIN T USING (a)",
    "SELECT a FROM (SELECT a FROM S [size 10 advance 2])[ROWS 3] AS x WHERE NOT EXISTS "
    "(SELECT * FROM T WHERE T.a = x.a)",
    "CREATE STREAM s (a int, b decimal(3, 2)) FROM 'x' TIMESTAMP BY a SLACK 5 SECONDS IDLE 3 WITH (k = v)",
    "SELECT subnet, sum(size) FROM P [RANGE INTERVAL '5' SECOND] WHERE ts > TIMESTAMP '2020-01-01 00:00:00' WINDOW 10",
    "Rstream(SELECT a FROM S MODEL S.a = S.b * t JOIN R [NOW] ON S.a <> R.a)",
]
NOISE = [
    *"()[],;:.*'“\"=<>+-/^|&?@#%{}!",
    "SELECT",
    "FROM",
    "AS",
    "ROWS",
    "NULL",
    "''",
    "1e999",
    "0x",
    "--",
    "/*",
    "WITH",
]


@pytest.mark.parametrize("seed", range(4))
def test_broken_texts_give_clear_errors(seed: int) -> None:
    draw = random.Random(seed)
    catalog = make_catalog()
    for _ in range(150):
        words = draw.choice(CORPUS).split(" ")
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(words))
            match draw.randrange(4):
                case 0:
                    del words[at : at + draw.randint(1, 3)]
                    words = words or ["SELECT"]
                case 1:
                    words.insert(at, draw.choice(NOISE))
                case 2:
                    words[at] = words[at][: len(words[at]) // 2] + draw.choice(NOISE) + words[at][len(words[at]) // 2 :]
                case _:
                    words[at] = draw.choice(words)
        text = " ".join(words)
        try:
            bind(text, catalog)
        except CqlError as error:
            assert "<class" not in error.message, (text, error.message)  # no word of the parser's own
            assert "sqlglot" not in error.message, (text, error.message)
            assert "cannot be read (" not in error.message, (text, error.message)
            str(error)
