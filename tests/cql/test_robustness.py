"""Whatever the text, the answer is a bound query or one clear error with a place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from eddyline.core.errors import CqlError, JobError
from eddyline.cql import bind
from eddyline.engine.job import declare_job
from eddyline.engine.job_text import JobText
from eddyline.engine.session import Session
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
            assert_placed(error, text)


def assert_placed(error: CqlError, text: str) -> None:
    """The error says where: a line and a column of the text, and a part of it that is underlined."""
    assert error.span is not None, (text, error.message)
    assert error.text == text, error.message
    assert 0 <= error.span.start < error.span.end <= len(text) + 1, (text, error.message, error.span)
    assert f"line {error.line}, column {error.column}:" in str(error)
    assert str(error).rstrip().endswith("^")


@pytest.mark.parametrize(
    "text", ["SELECT * FROM S [NOW] GROUP BY a", "  ", "SELECT count(*), * FROM S [NOW] GROUP BY b"]
)
def test_what_is_not_written_has_the_place_of_the_statement(text: str) -> None:
    """The columns of * stand nowhere in the text."""
    with pytest.raises(CqlError) as caught:
        bind(text, make_catalog())
    assert_placed(caught.value, text)


DECLARED = "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;\nCREATE RELATION T FROM 't.csv' KEY (a);\n"
JOBS = [
    "CREATE VIEW v AS SELECT a, b FROM S WHERE a > 3;\nq: SELECT a, count(*) AS n FROM v [ROWS 5] GROUP BY a;",
    "hot: INSERT INTO 'o.csv' SELECT S.a FROM S [RANGE 5], T WHERE S.a = T.a WITH (tree = '(S, T)');",
    "WITH w AS (SELECT a FROM S) SELECT a FROM w WHERE a IN (SELECT a FROM T) AND name LIKE 'a%';",
    "SELECT sum(a) AS x FROM S [PARTITION BY b ROWS 2] GROUP BY b HAVING max(a) > 1 WITH (on_error = 'invalid');",
    "CREATE STREAM Z (a int, b string) FROM 's.csv' TIMESTAMP BY a SLACK 5 WITH (header = true);\nSELECT a FROM Z;",
]


@pytest.mark.parametrize("seed", range(4))
def test_every_mistake_in_a_job_has_a_place(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are declared as the command line does it, and every word of them may be wrong."""
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text("ts,a,b,name\n1,1,1,x\n")
    Path("t.csv").write_text("a,label\n1,x\n")
    draw = random.Random(seed)
    other = [*NOISE, "name", "a", "5", "-1", "'zzz'", "S", "T", "OR", "(SELECT a FROM S)", "[NOW]", "count(*)"]
    refused = 0
    for _ in range(60):
        words = (DECLARED + draw.choice(JOBS)).split(" ")
        for _ in range(draw.randint(1, 2)):
            at = draw.randrange(len(words))
            words[at : at + draw.randint(0, 1)] = [draw.choice(other)] if draw.random() < 0.7 else []
        text = " ".join(words)
        try:
            declare_job(Session(base=tmp_path), JobText(text, tmp_path))
        except CqlError as error:
            refused += 1
            assert_placed(error, text)
        except JobError as error:
            raise AssertionError(f"{error} has no place, in:\n{text}") from error
    assert refused > 20
