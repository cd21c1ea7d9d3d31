"""What is known of signals as text, for snapshots: lists of numbers, texts and keys of any type of column."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "Decimal": Decimal,
    "bytes": bytes.fromhex,
}


def as_text(value: Any) -> str:
    """The text from which ``from_text`` makes an equal value; tuples become lists.

    >>> as_text([datetime.date(2024, 1, 2), Decimal("1.50")])
    '[{"date": "2024-01-02"}, {"Decimal": "1.50"}]'
    >>> from_text(as_text([datetime.date(2024, 1, 2), b"z", 1, None]))
    [datetime.date(2024, 1, 2), b'z', 1, None]
    """
    return json.dumps(value, default=_tagged)


def from_text(text: str) -> Any:
    return json.loads(text, object_hook=lambda found: next(_READ[n](v) for n, v in found.items()))


def _tagged(value: Any) -> dict[str, str]:
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case datetime.date():  # a datetime is one
            return {type(value).__name__: value.isoformat()}
        case Decimal():
            return {"Decimal": str(value)}
    raise TypeError(f"a key of type {type(value).__name__} cannot be saved")
