"""The state of a shard in Spark's state store: a log of segments, and a head with the place of each piece.

Spark's store is handed few, large values: the pieces that a micro-batch adds (``state_codec``) are put together into
segments of up to 8 MB, and the head (skeleton of the state tree, place of each piece, format version, nonce) is
written last. A segment with less than half of its bytes still in use is given up: its live pieces move to the new
segment, so the space taken is at most about twice what lives, and each byte is moved O(1) times for each byte added.

The *nonce* is drawn anew at every save. An engine that is kept in a worker is trusted only if it carries the nonce
that the store has: a task that was retried, a second action on the same micro-batch, a shard that moved away and
came back, or another query with the same shard number all break weaker checks.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from eddyline.core.errors import EddylineError
from eddyline.engine.state_codec import Bytes, decode, encode
from eddyline.spark import shared_segments
from eddyline.spark.compatibility import FORMAT, wrong_format
from eddyline.spark.shared_segments import SharedSegment

SEGMENT_BYTES: Final = 8 << 20
HEAD: Final = -2  # the number under which a store without names keeps the head
FACTS: Final = -1  # the number under which the facts that state depends on are kept


class Values(Protocol):
    """The part of a state store that is used: one head, and segments by number."""

    def head(self) -> bytes | None: ...
    def set_head(self, data: bytes) -> None: ...
    def segment(self, number: int) -> bytes: ...
    def set_segment(self, number: int, data: bytes) -> None: ...
    def drop_segment(self, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    segment: int
    start: int
    length: int


@dataclass(slots=True)
class Head:
    """What the store says of itself. ``sizes`` are the bytes of each segment, dead ones included; ``shown_at``: where
    a worker shows some of them."""

    nonce: str
    program: str
    batch: int = 0
    skeleton: Any = None
    places: dict[str, Place] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    shown_at: dict[int, SharedSegment] = field(default_factory=dict)

    def pack(self) -> bytes:
        tree = {
            "format": FORMAT,
            "nonce": self.nonce,
            "program": self.program,
            "batch": self.batch,
            "skeleton": self.skeleton,
            "places": {n: [p.segment, p.start, p.length] for n, p in self.places.items()},
            "sizes": {str(n): s for n, s in self.sizes.items()},
            "near": {str(n): s.to_json() for n, s in self.shown_at.items()},
        }
        return zlib.compress(json.dumps(tree).encode(), 1)

    @staticmethod
    def unpack(data: bytes) -> Head:
        tree = json.loads(zlib.decompress(data))
        if tree["format"] != FORMAT:
            raise EddylineError(wrong_format(tree["format"]))
        places = {n: Place(*p) for n, p in tree["places"].items()}
        sizes = {int(n): s for n, s in tree["sizes"].items()}
        shown = {int(n): SharedSegment(*s) for n, s in tree["near"].items()}
        return Head(tree["nonce"], tree["program"], tree["batch"], tree["skeleton"], places, sizes, shown)


class _Gatherer:
    """Takes the pieces of one save: bytes are kept only of those that must be written."""

    def __init__(self, kept: Mapping[str, Place]) -> None:
        self.kept = kept
        self.places: dict[str, Place] = {}
        self.fresh: dict[str, Bytes] = {}

    def put(self, name: str, data: Bytes) -> None:
        place = self.kept.get(name)
        if place is not None:
            self.places[name] = place
        else:
            self.fresh.setdefault(name, data)

    def get(self, name: str) -> bytes:
        raise AssertionError("only for writing")


class SegmentLog:
    """``showing``: what is written is also shown to other workers of this machine (``shared_segments``).

    >>> class Memory:
    ...     def __init__(self): self.top, self.parts = None, {}
    ...     def head(self): return self.top
    ...     def set_head(self, data): self.top = data
    ...     def segment(self, n): return self.parts[n]
    ...     def set_segment(self, n, data): self.parts[n] = data
    ...     def drop_segment(self, n): del self.parts[n]
    >>> memory = Memory()
    >>> log = SegmentLog(memory)
    >>> head = log.save({"n": 1, "text": "a"}, None, "program")
    >>> log.load(log.head())
    {'n': 1, 'text': 'a'}
    """

    def __init__(self, values: Values, *, showing: bool = True) -> None:
        self.values, self.showing = values, showing
        self.written = 0  # bytes by the last save

    def head(self) -> Head | None:
        data = self.values.head()
        return None if data is None else Head.unpack(data)

    def load(self, head: Head) -> Any:
        segments = {n: self._segment(head, n) for n in {p.segment for p in head.places.values()}}
        return decode(head.skeleton, _Reader(head.places, segments))

    def _segment(self, head: Head, number: int) -> bytes:
        shown = head.shown_at.get(number)
        data = None if shown is None else shown.read()
        if data is None or len(data) != head.sizes[number]:
            return self.values.segment(number)
        return data

    def facts(self) -> bytes:
        """What was written with the first save."""
        return self.values.segment(FACTS)

    def save(self, tree: Any, before: Head | None, program: str, facts: bytes = b"") -> Head:
        """Write what changed since ``before`` and return the new head. ``program`` is the fingerprint of ``facts``
        (``compatibility``), which are written once."""
        if before is None and facts:
            self.values.set_segment(FACTS, facts)
        old = before or Head("", program)
        given_up = set(_sparse(old))
        gatherer = _Gatherer({n: p for n, p in old.places.items() if p.segment not in given_up})
        skeleton = encode(tree, gatherer)
        head = Head(secrets.token_hex(16), program, old.batch + 1, skeleton, gatherer.places)
        self.written = 0
        number = max(old.sizes, default=-1) + 1
        for data, places in _cut(gatherer.fresh, number):
            self.values.set_segment(number, data)
            head.places |= places
            head.sizes[number] = len(data)
            shown = shared_segments.show(data) if self.showing else None
            if shown is not None:
                head.shown_at[number] = shown
            self.written += len(data)
            number += 1
        used = {p.segment for p in head.places.values()}
        for n, size in old.sizes.items():
            if n in used:
                head.sizes[n] = size
                if n in old.shown_at:
                    head.shown_at[n] = old.shown_at[n]
            else:
                self.values.drop_segment(n)
        if sum(head.sizes.values()) > shared_segments.MAX_SHARED_BYTES:
            head.shown_at.clear()
        packed = head.pack()
        self.values.set_head(packed)
        self.written += len(packed)
        return head


def _sparse(head: Head) -> Iterator[int]:
    """Segments whose pieces were, by less than half of their bytes, needed by the last save."""
    living: dict[int, int] = dict.fromkeys(head.sizes, 0)
    for p in head.places.values():
        living[p.segment] += p.length
    return (n for n, size in head.sizes.items() if 2 * living[n] < size)


def _cut(pieces: Mapping[str, Bytes], number: int) -> Iterator[tuple[bytes, dict[str, Place]]]:
    parts: list[Bytes] = []
    places: dict[str, Place] = {}
    length = 0
    for name, data in pieces.items():
        if parts and length + len(data) > SEGMENT_BYTES:
            yield b"".join(parts), places
            parts, places, length, number = [], {}, 0, number + 1
        places[name] = Place(number, length, len(data))
        parts.append(data)
        length += len(data)
    if parts:
        yield b"".join(parts), places


class _Reader:
    def __init__(self, places: Mapping[str, Place], segments: Mapping[int, bytes]) -> None:
        self.places, self.segments = places, segments

    def put(self, name: str, data: Bytes) -> None:
        raise AssertionError("only for reading")

    def get(self, name: str) -> bytes:
        p = self.places[name]
        return self.segments[p.segment][p.start : p.start + p.length]
