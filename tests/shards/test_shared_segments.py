"""Segments shown to other workers: found while they are shown, never mistaken, never needed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eddyline.spark import shared_segments as near
from eddyline.spark.shard_state import Head, SegmentLog
from eddyline.spark.shared_segments import SharedSegment, show
from tests.shards.shards import Memory

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files without a name are Linux's")

READ = """
import sys
from eddyline.spark.shared_segments import SharedSegment
found = SharedSegment(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).read()
print(None if found is None else len(found))
"""


def _another_process_reads(shown: SharedSegment) -> str:
    arguments = [str(x) for x in shown.to_json()]
    return subprocess.run([sys.executable, "-c", READ, *arguments], capture_output=True, text=True).stdout.strip()


def test_another_process_reads_a_segment_until_it_is_forgotten() -> None:
    shown = show(bytes(3_000_000))
    assert shown is not None
    where = SharedSegment(*shown.to_json())  # type: ignore[arg-type]
    assert _another_process_reads(where) == "3000000"
    del shown
    gc.collect()
    assert _another_process_reads(where) == "None"
    assert not Path(f"/proc/{where.process}/fd/{where.file}").exists()


def test_a_file_that_another_one_has_replaced_is_not_read() -> None:
    first = show(b"first")
    assert first is not None
    where = SharedSegment(*first.to_json())  # type: ignore[arg-type]
    del first
    second = show(b"second")  # gets the number that has become free
    assert second is not None
    assert second.file == where.file
    assert where.read() is None


def test_an_ended_process_shows_nothing() -> None:
    code = "from eddyline.spark.shared_segments import show; print(*show(b'x').to_json())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert SharedSegment(int(told[0]), int(told[1]), told[2]).read() is None


class _Counted(Memory):
    reads = 0

    def segment(self, number: int) -> bytes:
        self.reads += 1
        return super().segment(number)


def _told(log: SegmentLog) -> Head:
    """The head as another worker finds it: from the store, owning nothing."""
    head = log.head()
    assert head is not None
    return head


@pytest.mark.parametrize("showing", [True, False])
def test_state_comes_from_another_worker_or_from_the_store(showing: bool) -> None:
    store = _Counted()
    log = SegmentLog(store, showing=showing)
    head = log.save({"a": np.arange(50_000)}, None, "program")
    assert log.load(_told(log))["a"].sum() == sum(range(50_000))
    assert (store.reads == 0) == showing
    del head
    gc.collect()
    assert log.load(_told(log))["a"].sum() == sum(range(50_000))
    assert store.reads == (1 if showing else 2)


def test_segments_that_live_on_are_still_shown_after_the_next_save() -> None:
    store = _Counted()
    log = SegmentLog(store)
    first = log.save({"a": np.arange(50_000)}, None, "program")
    second = log.save({"a": np.arange(50_000), "b": np.arange(9)}, first, "program")
    del first
    gc.collect()
    assert len(second.shown_at) == len(second.sizes) == 2
    assert log.load(_told(log))["b"].tolist() == list(range(9))
    assert store.reads == 0


def test_large_state_is_not_kept_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "MAX_SHARED_BYTES", 1_000_000)
    log = SegmentLog(_Counted())
    head = log.save({"a": np.arange(100_000)}, None, "program")
    assert len(head.shown_at) == 1
    head = log.save({"a": np.arange(100_000), "b": np.arange(40_000) * 3}, head, "program")
    assert head.shown_at == {}
    assert log.load(_told(log))["b"][-1] == 119_997


def test_a_worker_keeps_few_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "MAX_FILES", len(near._shown) + 3)
    shown = [show(b"x") for _ in range(5)]
    assert [s is not None for s in shown] == [True, True, True, False, False]
    shown.clear()
    gc.collect()
    assert show(b"x") is not None
