"""Letters: commands from the driver to the shards, in a file beside the driver that the planner of micro-batches reads.

The planner's process imports this, so it imports nothing heavy. ``steering`` defines the commands.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Letter = Mapping[str, Any]
STEERING: Final = -2  # in place of a lane: the row holds letters


class Mailbox:
    """Letters in a file beside the driver, one a line; the planner of micro-batches reads it.

    >>> box = Mailbox()
    >>> box.send({"pin": True})
    >>> read_letters(box.path, 0), read_letters(box.path, 1)
    ([{'pin': True}], [])
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="eddyline-steering-")
        self.path = str(Path(self._folder.name) / "letters")
        Path(self.path).touch()

    def send(self, letter: Letter) -> None:
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(letter) + "\n")


def read_letters(path: str, after: int) -> list[dict[str, Any]]:
    """The letters after so many; a line that is not yet whole is left for the next time."""
    if not path:
        return []
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:  # their writer has ended, and sends no more
        return []
    return [json.loads(line) for line in text.split("\n")[:-1][after:]]
