"""Generators: pinned definitions, determinism, and that each dial does what it says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import JobError
from eddyline.datasets import joins
from eddyline.datasets.generate import CHUNK, Generated, draw, zipf_table
from eddyline.datasets.nexmark import nexmark
from eddyline.datasets.packets import SIGNATURE_A, SIGNATURE_B, intrusion, link, targets
from eddyline.datasets.registry import GENERATORS, generate
from eddyline.datasets.trades import trades


def times(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy()


def test_three_way_is_the_benchmarks_definition() -> None:
    tables = joins.three_way()
    rng = np.random.default_rng(1)
    ts = np.sort(rng.integers(0, 600_000_000, 1_500_000))
    stream, key = rng.integers(0, 3, 1_500_000), rng.integers(0, 100_000, 1_500_000)
    value = rng.random(1_500_000)
    assert {n: len(t) for n, t in tables.items()} == {"R": 499_851, "S": 499_758, "T": 500_391}
    for i, table in enumerate(tables.values()):
        assert table.column_names == ["ts", "key", "val"] and table["ts"].type == pa.timestamp("us")
        assert np.array_equal(times(table), ts[stream == i])
        assert np.array_equal(table["key"].to_numpy(), key[stream == i])
        assert np.array_equal(table["val"].to_numpy(), value[stream == i])


def test_join_streams_as_files(tmp_path: Path) -> None:
    paths = joins.write(joins.many_way(4, events=400), tmp_path / "four", rows=50)
    assert sum(pq.read_metadata(p).num_rows for p in paths.values()) == 400
    assert pq.read_metadata(paths["R"]).num_row_groups > 1
    assert joins.join_stream("S", events=100).table().equals(joins.three_way(events=100)["S"])
    with pytest.raises(JobError, match="there is no stream 'X'"):
        joins.join_stream("X")


MAKERS: list[Callable[..., Generated]] = [
    *(lambda e, s=0, n=name: link(n, events=e, seed=s) for name in "CBO"),
    lambda e, s=0: intrusion(events=e, seed=s),
    lambda e, s=0: trades(events=e, seed=s),
]


@pytest.mark.parametrize("make", MAKERS)
def test_seeded_ordered_and_lazy(make: Callable[..., Generated]) -> None:
    table = make(CHUNK + 500).table()
    assert table.equals(make(CHUNK + 500).table())
    assert not table.equals(make(CHUNK + 500, 1).table())
    assert (np.diff(times(table)) >= 0).all()
    cut = list(make(CHUNK + 500).batches(1000))
    assert max(map(len, cut)) <= 1000 and pa.Table.from_batches(cut).equals(table)
    endless = make(None)
    assert not endless.finite and sum(map(len, islice(endless.batches(), 3))) > CHUNK
    with pytest.raises(JobError, match="has no end"):
        endless.table()
    assert make(0).table().num_rows == 0


def test_packets_travel_from_c_to_b_to_o() -> None:
    c, b, o = (link(n, events=20_000, rate=1000, latency=0.5, seed=3).table() for n in "CBO")
    for table in (c, b, o):
        assert len(set(table["pid"].to_pylist())) == len(table)
    at = [dict(zip(t["pid"].to_pylist(), times(t).tolist(), strict=True)) for t in (c, b, o)]
    size = [dict(zip(t["pid"].to_pylist(), t["size"].to_pylist(), strict=True)) for t in (c, b, o)]
    both = at[0].keys() & at[1].keys()
    everywhere = both & at[2].keys()
    assert 0.55 < len(both) / len(c) < 0.65 and 0.45 < len(everywhere) / len(both) < 0.55
    assert all(0 <= at[1][p] - at[0][p] <= 500_000 and 0 <= at[2][p] - at[1][p] <= 500_000 for p in everywhere)
    assert all(size[0][p] == size[1][p] == size[2][p] for p in everywhere)


def test_routes_drift() -> None:
    c, o = (link(n, events=20_000, drift=0.5, background=0).table() for n in "CO")
    arrived = np.isin(c["pid"].to_numpy(), o["pid"].to_numpy())
    assert arrived[:10_000].mean() > 0.25 and arrived[10_000:].mean() < 0.05


def test_the_attack_starts_midway() -> None:
    table = intrusion(events=20_000, drift=0.5, with_a=0.1, with_b=0.1).table()
    a, b = (pc.match_substring(table["data"], s).to_numpy(zero_copy_only=False) for s in (SIGNATURE_A, SIGNATURE_B))
    assert abs(a[:10_000].mean() - 0.1) < 0.02 and abs((a & b)[:10_000].mean() - 0.01) < 0.01
    assert (a & b)[10_000:].mean() > 0.65
    tied = intrusion(events=20_000, drift=1.0, correlation=1.0).table()["data"]
    a, b = (pc.match_substring(tied, s).to_numpy(zero_copy_only=False) for s in (SIGNATURE_A, SIGNATURE_B))
    assert (b[a]).all() and not b[~a].all()
    known = set(targets(hosts=200, part=0.3).table()["addr"].to_pylist())
    assert len(known) == 60 and 0.0 < np.isin(table["destAddr"].to_pylist(), list(known)).mean() < 1.0


def test_skew() -> None:
    even = np.bincount(draw(zipf_table(10, 0.0), np.random.default_rng(0).random(10_000)))
    law = np.bincount(draw(zipf_table(10, 1.0), np.random.default_rng(0).random(10_000)))
    assert even.max() / even.min() < 1.3 and 1.8 < law[0] / law[1] < 2.2
    counts = trades(events=10_000, symbols=5, skew=1.0).table()["symbol"].value_counts().to_pylist()
    assert max(counts, key=lambda c: c["counts"])["values"] == "S000"


def test_prices_walk_across_chunks() -> None:
    table = trades(events=3 * CHUNK, symbols=2).table()
    one = table.filter(pc.equal(table["symbol"], "S001"))["price"].to_numpy()
    assert (np.abs(np.diff(np.log(one))) < 0.01).all() and one.std() > 0
    calm, wild = (trades(events=4000, symbols=1, drift=d).table()["price"].to_numpy()[2000:] for d in (1.0, 0.5))
    assert np.diff(np.log(wild)).std() > 5 * np.diff(np.log(calm)).std()


def test_dials_by_name() -> None:
    assert set(GENERATORS) >= {"packets", "intrusion", "targets", "trades", "join"}
    assert generate("trades", {"events": "10", "symbols": "3"}).table().num_rows == 10
    with pytest.raises(JobError, match="at least one is wanted"):
        generate("trades", {"symbols": "0"})
    with pytest.raises(JobError, match="greater than 0"):
        generate("packets", {"rate": "0"})
    with pytest.raises(JobError, match="cannot be negative"):
        generate("packets", {"seconds": "-1"})


def test_nexmark_streams_belong_together() -> None:
    person, auction, bid = (nexmark(s, events=20_000, seed=2).table() for s in ("person", "auction", "bid"))
    assert (len(person), len(auction), len(bid)) == (400, 1200, 18_400)
    assert person["id"].to_pylist() == list(range(1000, 1400)) and auction["id"].to_pylist() == list(range(1000, 2200))
    opened = dict(zip(auction["id"].to_pylist(), auction["dateTime"].cast(pa.int64()).to_pylist(), strict=True))
    known = [
        opened.get(a, 1 << 62) <= t
        for a, t in zip(bid["auction"].to_pylist(), bid["dateTime"].cast(pa.int64()).to_pylist(), strict=True)
    ]
    assert all(known) and max(bid["bidder"].to_pylist()) <= 1401
    counts = bid["auction"].value_counts().field("counts").to_numpy()
    assert counts.max() > 20 * np.median(counts)  # hot auctions
    assert pc.all(pc.greater(auction["expires"], auction["dateTime"])).as_py()
    assert bid.equals(nexmark("bid", events=20_000, seed=2).table()) and not bid.equals(
        nexmark("bid", events=20_000, seed=3).table()
    )
    with pytest.raises(JobError, match=r"no stream 'bids'\. Did you mean 'bid'"):
        nexmark("bids")
