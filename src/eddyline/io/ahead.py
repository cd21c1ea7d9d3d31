"""Reading ahead: a background thread fills a short queue, so that decoding overlaps with the engine's work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS: Final = 0.1  # at the stop flag, while the queue is full


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _End:
    pass


def ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items in the same order, produced up to ``depth`` in advance by another thread.

    More depth smooths uneven decoding and holds more batches in memory. An error of the producer is raised where the
    consumer stands; a consumer that stops early (``close()``) ends the producer at its next item.

    >>> list(ahead(range(4)))
    [0, 1, 2, 3]
    """
    if depth < 1:
        yield from items
        return
    waiting: queue.Queue[T | _Failure | type[_End]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: T | _Failure | type[_End]) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=SECONDS_BETWEEN_LOOKS)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put(item):
                    break
        except BaseException as error:
            put(_Failure(error))
        else:
            put(_End)
        finally:
            close = getattr(items, "close", None)
            if close is not None and stopped.is_set():
                close()

    # A daemon: a producer blocked in a read (standard input) must not keep the process alive.
    thread = threading.Thread(target=produce, name="eddyline-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if item is _End:
                return
            if isinstance(item, _Failure):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join(timeout=2 * SECONDS_BETWEEN_LOOKS)
