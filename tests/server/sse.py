"""Server-sent events as a reader sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    kind: str
    data: Any
    id: str | None


def events(lines: Any) -> Iterator[Event]:
    """Whole events only: what a broken connection has left of one is not one."""
    kind, data, id = "message", [], None
    for raw in lines:
        if not raw.endswith(b"\n"):
            return
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif line.startswith("id: "):
            id = line[4:]
        elif not line:
            if data:
                yield Event(kind, json.loads("\n".join(data)), id)
            kind, data, id = "message", [], None
