"""Names of queries in a job. A name is also the name of a file: ``--out`` writes ``folder/name.parquet``, and a
checkpoint keeps results in a folder of that name. So a name must be one safe file name on every system, and no two
names may mean the same file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Final

# Bytes of a name: file systems take 255, and the extension and the mark of an unfinished file come on top.
LONGEST_NAME: Final = 200
_FORBIDDEN: Final = frozenset('/\\:*?"<>|')
# Names of devices on Windows, with any extension.
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul", *(f"{d}{i}" for d in ("com", "lpt") for i in range(1, 10))})
# They turn the order round in which a line is shown, so that a name would look like another one.
_TURNING: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNNAMED: Final = re.compile(r"query \d+")


def folded(name: str) -> str:
    """The form in which two names are equal if some file system takes them for one: without case and in one
    composition of accents.

    >>> folded("Straße") == folded("STRASSE")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def unsafe(name: str) -> str | None:
    r"""Why a name cannot name a file, or None.

    >>> unsafe("../x")
    "it has the character '/'"
    >>> unsafe("reversed \u202e")
    'it has the character U+202E'
    >>> unsafe("late packets") is None
    True
    """
    for c in name:
        if c in _FORBIDDEN:
            return f"it has the character {c!r}"
        if c in _TURNING or unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp"):
            return f"it has the character U+{ord(c):04X}"
    if not name.strip():
        return "it is empty"
    if name[0] in ". " or name[-1] in ". ":
        return "it starts or ends with a point or a space"
    if len(name.encode()) > LONGEST_NAME:
        return f"it is longer than {LONGEST_NAME} bytes"
    if name.split(".")[0].lower() in _DEVICES:
        return "some systems have a device of this name"
    if _UNNAMED.fullmatch(name.lower()):
        return "reports give such names to queries without one"
    return None


def file_names(names: Sequence[str | None]) -> list[str]:
    """A file name for each query: its own, or ``query_2`` for the second if it has none and this name is free.

    >>> file_names(["query_2", None, None])
    ['query_2', 'query_2_', 'query_3']
    """
    taken = {folded(n) for n in names if n is not None}
    return [_generated(i + 1, taken) if n is None else n for i, n in enumerate(names)]


def _generated(number: int, taken: Collection[str]) -> str:
    name = f"query_{number}"
    while name in taken:
        name += "_"
    return name
