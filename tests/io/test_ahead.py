"""Reading ahead: order, errors, early ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from eddyline.io.ahead import ahead


def test_order_and_errors() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("broken")

    got = []
    with pytest.raises(ValueError, match="broken"):
        for item in ahead(failing()):
            got.append(item)
    assert got == [1, 2]
    assert list(ahead(range(100), depth=0)) == list(range(100))


def test_a_consumer_that_stops_ends_the_producer() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            n = 0
            while True:
                yield n
                n += 1
        finally:
            closed.set()

    items = ahead(endless())
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert closed.wait(2)


def test_it_reads_ahead_but_not_far() -> None:
    produced: list[int] = []

    def counted() -> Iterator[int]:
        for i in range(100):
            produced.append(i)
            yield i

    items = ahead(counted(), depth=2)
    next(items)
    threading.Event().wait(0.05)
    assert 2 <= len(produced) <= 4
    items.close()  # type: ignore[attr-defined]
