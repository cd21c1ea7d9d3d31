"""CSV: types, dialects, compression, malformed rows, and that block sizes never show."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.errors import DataError, JobError
from eddyline.io import text
from eddyline.io.csv import CsvParser, CsvSource, Dialect
from eddyline.io.resolve import open_source
from tests.io.read import invalid, reasons, rows


def write(folder: Path, content: str | bytes, name: str = "calls.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_types_are_found_in_the_values(tmp_path: Path) -> None:
    source = CsvSource(
        [write(tmp_path, "i,f,b,d,t,z,s\n1,2.5,true,2024-05-01,2024-05-01 10:00:00.25,2024-05-01T10:00:00Z,x\n")]
    )
    assert source.schema.types == [
        pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us"), pa.string(),
    ]  # fmt: skip
    (row,) = rows(source)
    assert row == {
        "i": 1, "f": 2.5, "b": True, "d": date(2024, 5, 1), "t": datetime(2024, 5, 1, 10, 0, 0, 250000),
        "z": datetime(2024, 5, 1, 10), "s": "x",
    }  # fmt: skip


def test_wrong_number_of_fields_is_counted_with_its_line(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, "ts,who\n1,ann\n\n2\n3,bob,x\n4,eve\n")])
    assert rows(source) == [{"ts": 1, "who": "ann"}, {"ts": 4, "who": "eve"}]
    found = invalid(source)
    assert [i.reason for i in found] == [
        "calls.csv, line 4: 1 field instead of 2",
        "calls.csv, line 5: 3 fields instead of 2",
    ]
    assert [i.row for i in found] == ["2", "3,bob,x"]


def test_a_value_that_does_not_parse_spoils_its_row_only(tmp_path: Path) -> None:
    declared = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
    source = CsvSource([write(tmp_path, b"ts,v\n1,1.5\nx,2\n3,\xff\n4, 7 \n5,\n6,nan\n")], declared)
    got = rows(source)
    assert [r["ts"] for r in got] == [1, 4, 5, 6]
    assert got[1]["v"] == 7.0 and got[2]["v"] is None and got[3]["v"] != got[3]["v"]
    assert reasons(source) == [
        "calls.csv, line 3: column 'ts': 'x' is not a value of type bigint",
        "calls.csv, line 4: column 'v': the text is not UTF-8",
    ]


def test_a_row_of_other_bytes_and_another_width_is_counted_like_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, b"ts,who\n1,ann\n\xff\xfe\n2,\xc3\xa9va\n3,\xff\n4,eve\n")
    source = CsvSource([path], pa.schema([("ts", pa.int64()), ("who", pa.string())]))
    assert rows(source) == [{"ts": 1, "who": "ann"}, {"ts": 2, "who": "éva"}, {"ts": 4, "who": "eve"}]
    assert reasons(source) == [
        "calls.csv, line 3: 1 field instead of 2",
        "calls.csv, line 5: column 'who': the text is not UTF-8",
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("header", ["ts\rwho", "x" * 200_000])
def test_a_first_line_that_is_no_header_is_told(tmp_path: Path, header: str) -> None:
    with pytest.raises(JobError, match=r"the first line of calls.csv is no line of CSV"):
        CsvSource([write(tmp_path, header + "\n1,2\n")])


@pytest.mark.parametrize("odd", [b"\r1\r2\r", b'\r"', b'""\r"x', b'\r"""', b"1\r\n\r2,3,4"])
def test_lone_carriage_returns_end_records_as_they_do_for_arrow(tmp_path: Path, odd: bytes) -> None:
    path = write(tmp_path, b"ts,who\n7,ann\n" + odd)
    source = CsvSource([path], pa.schema([("ts", pa.int64()), ("who", pa.string())]))
    assert rows(source)[0] == {"ts": 7, "who": "ann"}
    assert all(reason.startswith("calls.csv, line ") for reason in reasons(source))


def test_one_typing_error_does_not_make_a_column_of_numbers_a_column_of_texts(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, "ts\n" + "".join(f"{i}\n" for i in range(50)) + "oops\n")])
    assert source.schema.types == [pa.int64()]
    assert len(rows(source)) == 50 and len(invalid(source)) == 1


def test_a_mixed_column_is_text(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, "code\n1\n2\nA\nB\n")])
    assert source.schema.types == [pa.string()] and len(rows(source)) == 4


def test_pruning_does_not_change_which_rows_exist(tmp_path: Path) -> None:
    declared = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    source = CsvSource([write(tmp_path, "ts,v\n1,1\n2,x\n")], declared)
    assert rows(source, ["ts"]) == [{"ts": 1}]


def test_quotes_newlines_and_an_unclosed_quote(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, 'ts,who\r\n1,"a\r\nb"\r\n2,"say ""hi"""\r\n3,5" pipe\r\n4,"open\r\n5,e\r\n')])
    assert [r["who"] for r in rows(source)] == ["a\r\nb", 'say "hi"', '5" pipe', "e"]
    assert reasons(source) == ["calls.csv, line 6: a quoted value is never closed"]


def test_null_is_nothing_and_a_quoted_nothing_is_a_text(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, 'a,b\n1,\n,""\n2,NA\n'), options={"null": "NA"})
    assert rows(source) == [{"a": 1, "b": None}, {"a": None, "b": ""}, {"a": 2, "b": None}]


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed(tmp_path: Path, suffix: str, pack: object) -> None:
    path = write(tmp_path, pack(b"ts,v\n1,2\n"), f"a.csv.{suffix}")  # type: ignore[operator]
    assert rows(open_source(path)) == [{"ts": 1, "v": 2}]


def test_zstandard_and_a_damaged_file(tmp_path: Path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "a.csv.zst"), "zstd") as out:
        out.write(b"ts,v\n1,2\n")
    assert rows(open_source(tmp_path / "a.csv.zst")) == [{"ts": 1, "v": 2}]
    whole = gzip.compress(b"ts,v\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(10_000)))
    with pytest.raises(DataError, match=r"b\.csv\.gz is damaged"):
        rows(open_source(write(tmp_path, whole[: len(whole) // 2], "b.csv.gz")))


def test_dialects(tmp_path: Path) -> None:
    path = write(tmp_path, "1;'x;y'\n2;z\n")
    source = open_source(path, options={"delimiter": ";", "quote": "'", "header": False})
    assert rows(source) == [{"column1": 1, "column2": "x;y"}, {"column1": 2, "column2": "z"}]
    assert rows(open_source(write(tmp_path, "a\tb\n1\t2\n", "x.tsv"))) == [{"a": 1, "b": 2}]
    with pytest.raises(JobError, match="one ASCII character"):
        open_source(path, options={"delimiter": ";;"})


def test_header_only_is_no_rows(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, "ts,v\n")])
    assert source.schema.names == ["ts", "v"] and rows(source) == []
    timed = open_source("calls.csv", tmp_path, timestamp="TS")
    assert timed.schema.types == [pa.int64(), pa.null()] and rows(timed) == []


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_an_error_unless_its_columns_are_declared(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(JobError, match=r"calls\.csv is empty: a CSV file starts with a header line"):
        CsvSource([path])
    if not content:
        assert rows(CsvSource([path], pa.schema([("ts", pa.int64())]))) == []


def test_declared_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "ts,price\n1,2\n")
    assert rows(CsvSource([path], pa.schema([("PRICE", pa.string())]))) == [{"price": "2"}]
    with pytest.raises(JobError, match=r"no column 'prise'\. Did you mean 'price'\? Its columns are: ts, price"):
        CsvSource([path], pa.schema([("prise", pa.int64())]))
    with pytest.raises(JobError, match="more than one column named 'a'"):
        CsvSource([write(tmp_path, "a,a\n1,2\n")])


def test_files_with_another_order_of_columns(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a,b\n1,x\n", "1.csv"), write(tmp_path, "b,a\ny,2\n", "2.csv")
    assert rows(CsvSource([first, second])) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_huge_values(tmp_path: Path) -> None:
    huge = "x" * 3_000_000
    source = CsvSource([write(tmp_path, f"ts,s\n1,{huge}\n2,b\nbad\n3,{huge}\n")])
    assert [(r["ts"], len(r["s"])) for r in rows(source)] == [(1, 3_000_000), (2, 1), (3, 3_000_000)]


def test_batches_are_bounded(tmp_path: Path) -> None:
    source = CsvSource([write(tmp_path, "ts\n" + "".join(f"{i}\n" for i in range(1000)))])
    assert [len(b.rows) for b in source.open(batch_rows=300)] == [300, 300, 300, 100]


cells = st.text(st.sampled_from('ab,"\n 1é'), max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(cells, cells), max_size=12), st.integers(1, 40), st.integers(0, 3))
def test_any_texts_survive_any_block_size(pairs: list[tuple[str, str]], size: int, broken: int) -> None:
    """Python's csv module writes, we read, in blocks that may be smaller than a row; malformed rows do not disturb."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for i, pair in enumerate(pairs):
        if i < broken:
            out.write("one field only\n")
        writer.writerow(pair)
    parser = CsvParser(Dialect(header=False), pa.schema([("a", pa.string()), ("b", pa.string())]), 100)
    stream = io.BytesIO(out.getvalue().encode())
    blocks = text.blocks

    def small(read: object, **options: object) -> object:
        return blocks(read, **{**options, "size": size})  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eddyline.io.csv.blocks", small)
        batches = list(parser.read(stream.read, "t", ["a", "b"], 5))
    assert [tuple(r.values()) for b in batches for r in b.rows.to_pylist()] == pairs
    assert sum(len(b.invalid) for b in batches) == min(broken, len(pairs))
    assert all(len(b.rows) <= 5 for b in batches)


numbers = st.one_of(
    st.integers(-(10**20), 10**20).map(str), st.floats().map(str), st.sampled_from(["", " 7", "x", "1_0", "0x1f", "+5"])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from([pa.int64(), pa.float64(), pa.string()]))
def test_a_neighbour_that_is_malformed_changes_nothing(values: list[str], wanted: pa.DataType) -> None:
    """The slow way (which a malformed row provokes) and the fast way accept the same rows with the same values."""

    def read(lines: list[str]) -> list[object]:
        parser = CsvParser(Dialect(header=False), pa.schema([("k", pa.int64()), ("v", wanted)]), 100)
        data = "".join(f"{line}\n" for line in lines).encode()
        return [r["v"] for b in parser.read(io.BytesIO(data).read, "t", ["k", "v"], 99) for r in b.rows.to_pylist()]

    lines = [f"{i},{v}" for i, v in enumerate(values)]
    assert repr(read(lines)) == repr(read([*lines, "malformed"]))
    assert repr(read(lines)) == repr([v for line in lines for v in read([line])])


def test_utf16_and_another_delimiter_are_said(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"wide\.csv is UTF-16 text: save it as UTF-8\."):
        CsvSource([write(tmp_path, "ts,a\n1,2\n".encode("utf-16"), "wide.csv")])
    declared = pa.schema([("ts", pa.int64())])
    for header, remedy in (("ts;a", r"WITH \(delimiter = ';'\)"), ("ts\ta", r"WITH \(format = 'tsv'\)")):
        with pytest.raises(JobError, match=f"has no column 'ts'.*{remedy}"):
            CsvSource([write(tmp_path, f"{header}\n1;2\n")], declared)
