from __future__ import annotations

import os

import pytest

from eddyline.engine import allocation


def test_freed_memory_is_kept_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[int, int]] = []

    class Library:
        def __init__(self, name: None) -> None:
            self.mallopt = lambda parameter, value: said.append((parameter, value))

    monkeypatch.setattr(allocation.ctypes, "CDLL", Library)
    for name in [n for n in os.environ if n.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    allocation.keep_memory()
    assert said == [(-3, allocation.LARGEST_KEPT_BYTES), (-1, allocation.MAX_UNUSED_BYTES)]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    allocation.keep_memory()
    assert len(said) == 2


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(allocation.ctypes, "CDLL", lambda name: object())
    allocation.keep_memory()
