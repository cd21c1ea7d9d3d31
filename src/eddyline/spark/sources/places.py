"""The place of a source, which goes into Spark's offsets.

A source is a list of *parts* (files, mostly) in arrival order. A *mark* is a place in a part: a row number, or for text
a number of bytes; a *place* is a part with a mark in it. Offsets say nothing else, so the same two offsets always have
the same rows between them, in any process.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

PART_BITS: Final = 40  # rows or bytes of a part: a position is part << 40 | mark


class Mark(NamedTuple):
    """``at`` rows, or bytes of text, lie before it; ``line`` is the number of the line that it stands on, for
    messages. Row i of what follows has the position ``at`` + i, which grows along a text, too: no record is shorter
    than a byte."""

    at: int = 0
    line: int = 1


START: Final = Mark()


@dataclass(frozen=True, slots=True)
class Place:
    """``ended``: nothing will ever follow. ``order`` names the files of a watched directory up to here; of files that
    were given ``files`` is a checksum of their names up to here."""

    part: int = 0
    mark: Mark = START
    ended: bool = False
    order: tuple[str, ...] = ()
    files: int = 0

    @property
    def begun(self) -> int:
        """How many parts have been read, the last perhaps not to its end."""
        return self.part + (self.mark != START)

    def plain(self) -> dict[str, Any]:
        """
        >>> Place(1, Mark(500, 8)).plain()
        {'part': 1, 'at': 500, 'line': 8}
        """
        out: dict[str, Any] = {"part": self.part, "at": self.mark.at}
        if self.mark.line > 1:
            out["line"] = self.mark.line
        if self.ended:
            out["ended"] = True
        if self.order:
            out["order"] = pack_names(self.order)
        if self.files:
            out["files"] = self.files
        return out

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Place:
        """
        >>> place = Place(2, Mark(7), True, ("a.csv", "b.csv"))
        >>> Place.of(place.plain()) == place
        True
        """
        mark = Mark(plain["at"], plain.get("line", 1))
        order = unpack_names(plain.get("order", ""))
        return Place(plain["part"], mark, plain.get("ended", False), order, plain.get("files", 0))


PLAIN_TEXT_CHARACTERS: Final = 1000  # a longer text is compressed


def pack_names(names: Sequence[str]) -> str:
    """Names of files as one text; thousands of them, which differ in a number, take a few bytes each.

    >>> pack_names(["a.csv", "b.csv"])
    'a.csv/b.csv'
    >>> names = [f"part-{i:05}.parquet" for i in range(1000)]
    >>> len(pack_names(names)) < 5000, unpack_names(pack_names(names)) == tuple(names)
    (True, True)
    """
    text = "/".join(names)
    return text if len(text) < PLAIN_TEXT_CHARACTERS else "/" + base64.b64encode(zlib.compress(text.encode())).decode()


def unpack_names(text: str) -> tuple[str, ...]:
    if text.startswith("/"):
        text = zlib.decompress(base64.b64decode(text[1:])).decode()
    return tuple(text.split("/")) if text else ()
