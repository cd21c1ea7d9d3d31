"""The benchmarks measure what they say: the bare kernel joins, ratios and limits are what they seem."""

from __future__ import annotations

import doctest
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks import bare_kernel, harness, interval, linearity, pair_side, pairs, registry
from benchmarks.harness import Limit, Measured, ratio
from benchmarks.spark import configuration, contests, data, driver, nexmark, nexmark_native, processes, truth
from benchmarks.spark.configuration import Configuration, Outcome


def test_the_bare_kernel_joins_within_windows() -> None:
    rng = np.random.default_rng(7)
    times = [np.sort(rng.integers(0, 400, n)) for n in (50, 60, 40)]
    keys = [rng.integers(0, 4, len(t)) for t in times]
    width = 30
    found = bare_kernel.run(*bare_kernel.laid_out(times, keys), width, 100_000, most=64)
    expected = {
        rows
        for rows in product(*(range(len(t)) for t in times))
        if len({int(k[r]) for k, r in zip(keys, rows, strict=True)}) == 1
        and np.ptp([t[r] for t, r in zip(times, rows, strict=True)]) <= width
    }
    assert len(expected) > 100
    assert found.shape[1] == len(expected)
    assert {tuple(column) for column in found.T.tolist()} == expected


def test_a_ratio_compares_within_rounds() -> None:
    """A machine that is slow in one round is slow for both."""
    ours, peer = Measured("ours", "", [1.0, 10.0, 1.2]), Measured("peer", "", [0.5, 5.0, 0.6])
    assert ratio(ours, peer) == pytest.approx(2.0)
    assert ratio(ours, peer, peer) == pytest.approx(1.0)


def test_limits_say_whether_they_are_met() -> None:
    assert str(Limit("time", 1.5, 2.0)).startswith("met")
    assert str(Limit("time", 2.5, 2.0)).startswith("MISSED")
    assert Limit("events", 5e6, 5e6, "at least").met


def test_every_benchmark_has_a_name_of_its_own() -> None:
    names = [b.name for b in registry.ALL]
    assert len(set(names)) == len(names)
    assert registry.find(names[-1]).name == names[-1]


def test_the_slices_of_all_streams_cut_time_at_the_same_instants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th micro-batch has the k-th stretch of time of every stream, in the order in which Spark takes files."""
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    found = data.streams(Configuration("three-way", "ours", 3_000, 1_000, keys=20, window=1))
    bounds = []
    for name in ("R", "S", "T"):
        files = sorted(Path(found.path(name)).glob("*.parquet"), key=lambda f: f.stat().st_mtime)
        assert [f.stem for f in files] == ["00000", "00001", "00002"]
        bounds.append([(t[0].as_py(), t[-1].as_py()) for t in (pq.read_table(f)["ts"] for f in files)])
    for earlier, later in pairwise(zip(*bounds, strict=True)):
        assert max(last for _, last in earlier) < min(first for first, _ in later)
    assert found.files_per_batch == 1
    assert found.expected > 0


def test_other_results_than_expected_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    c = Configuration("chain", "ours", 3_000, 1_000, keys=50, window=1)
    right = data.streams(c).expected
    ours = Outcome(c, [9, 3, 5], [0.0, 1.0, 2.0], {}, 3_000, right, right, 7.0, 0.0, 1.0, 0.5, 0, 0, 0, {})
    assert Outcome.from_json(ours.to_json()) == ours
    assert f"{right:,} results" in contests.check([ours, replace(ours, configuration=replace(c, side="native"))])
    with pytest.raises(AssertionError, match="instead of"):
        contests.check([replace(ours, checked_results=right - 1)])
    with pytest.raises(AssertionError, match="different results"):
        contests.check([ours, replace(ours, configuration=replace(c, side="native"), checksum=8.0)])


def test_tables_and_limits_compare_with_spark() -> None:
    c = Configuration("chain", "ours", 2_000, 1_000)
    used = {"peak": 100.0, "jvm": 60.0, "python": 40.0, "processor_seconds": 9.0}
    began = -8.0  # seconds before the first micro-batch
    ours = Outcome(c, [9, 1000], [0.0, 1.0], {}, 2_000, 1, 1, 7.0, began, 10.5, 0.5, 0, 0, 0, {}, {}, used, [2.0, 1.0])
    spark = replace(ours, configuration=replace(c, side="native"), milliseconds=[9, 6000], started=-33.0)
    spark.memory = {**used, "peak": 400.0}
    alone, together = contests.table([[ours], [spark]]), contests.table([[replace(ours, memory={})]])
    assert [len(line) for line in (*alone, *together)] == [len(alone[0])] * 5
    assert alone[2].split()[:6] == ["Spark", "6.00", "6.00", "1.00", "40.0", "4.00"]
    # The other form of ours starts later, has a shorter micro-batch and takes more memory.
    paths = replace(ours, configuration=replace(c, side="paths"), milliseconds=[9, 500], started=-12.0)
    paths.memory = {**used, "peak": 120.0}
    bounds = (contests.Bound("steady", 7), contests.Bound("total", 5), contests.Bound("memory", 0.5))
    limits = [b.limit([[ours], [paths], [spark]]) for b in bounds]
    assert [(x.value, x.met) for x in limits if x is not None] == [(12.0, True), (4.0, False), (0.3, True)]
    assert contests.label(paths.configuration, c) == "ours, paths"


def test_memory_is_that_of_the_whole_tree() -> None:
    grandchild = "x = b'x' * (80 << 20); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    process = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE)
    sampler = processes.Sampler(process.pid, every=0.01)
    sampler.start()
    while sampler.usage.peak < 80 and sampler.usage.samples < 1_000:
        time.sleep(0.01)
    process.communicate(b"\n")
    sampler.stop()
    assert 80 < sampler.usage.python < 160
    assert sampler.usage.jvm == 0


@pytest.mark.parametrize(
    "module",
    [
        bare_kernel,
        harness,
        interval,
        linearity,
        pairs,
        configuration,
        contests,
        driver,
        nexmark,
        nexmark_native,
        processes,
        truth,
    ],
    ids=lambda m: m.__name__,
)
def test_doctests(module: object) -> None:
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0  # type: ignore[arg-type]


def test_pairs_compare_this_checkout_with_the_base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each ratio is of one pair, ours over the base's. The sides take turns at going first, and both have new processes
    after some pairs."""
    ours, asked, begun = pairs.HERE.parent, [], []

    @contextmanager
    def prepared(tree: Path, workload: str, quick: bool) -> Iterator[Callable[[], dict[str, float]]]:
        def run() -> dict[str, float]:
            asked.append(tree)
            return {"whole": (6.0 if tree == ours else 4.0) * len(asked)}

        begun.append(tree)
        yield run

    monkeypatch.setattr(pairs, "prepared", prepared)
    monkeypatch.setattr(pairs, "PAIRS_PER_PROCESS", 2)
    found = pairs.paired(tmp_path, "three-way", 3, quick=True)
    assert asked == [ours, tmp_path, tmp_path, ours, ours, tmp_path]
    assert begun == [tmp_path, ours] * 2
    assert found == {"whole": [6 / 8, 24 / 12, 30 / 24]}


def test_a_side_of_a_pair_runs_its_workload_each_time_it_is_asked(tmp_path: Path) -> None:
    with pairs.prepared(pairs.HERE.parent, "start-up", quick=True) as run:
        first, second = run(), run()
    assert first.keys() == second.keys() == {"import", "a trivial job"}
    assert 0 < first["import"] < first["a trivial job"] and first != second


def test_both_sides_of_a_pair_keep_compiled_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    found = pairs.environment(tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["PYTHONPATH"].split(pairs.os.pathsep)[0] == str(tmp_path / "src")


def test_a_base_is_a_folder_or_a_revision(tmp_path: Path) -> None:
    with pairs.checkout(str(tmp_path)) as tree:
        assert tree == tmp_path
    with pytest.raises(subprocess.CalledProcessError), pairs.checkout("no-such-revision"):
        pass


def test_processor_time_of_processes_below_is_counted() -> None:
    before = pair_side.tree_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(8_000_000))"], check=True)
    assert pair_side.tree_seconds() - before >= 0.05
