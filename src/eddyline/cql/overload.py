"""``ON OVERLOAD BLOCK | DROP | SAMPLE p % [SEED n] ABOVE n ROWS | n MB | n SECONDS``."""

from __future__ import annotations

from typing import Final, Literal

from sqlglot.tokenizer_core import TokenType

from eddyline.core.errors import did_you_mean
from eddyline.core.overload import Overload
from eddyline.cql.cursor import Cursor
from eddyline.cql.parsing import tokenize

ACTIONS: Final = ("BLOCK", "DROP", "SAMPLE")
UNITS: Final[dict[str, tuple[Literal["rows", "bytes", "µs"], float]]] = {
    "ROW": ("rows", 1),
    "BYTE": ("bytes", 1),
    "KB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "MILLISECOND": ("µs", 1e3),
    "SECOND": ("µs", 1e6),
    "MINUTE": ("µs", 6e7),
}


def parse_overload(cursor: Cursor) -> Overload:
    """What stands behind ``ON OVERLOAD``."""
    action = next((a for a in ACTIONS if cursor.word(a)), None)
    if action is None:
        hint = did_you_mean(cursor.current.text, ACTIONS) if cursor.current else ""
        raise cursor.error(f"ON OVERLOAD is followed by BLOCK, DROP or SAMPLE, but {cursor.found()}.{hint}")
    share, seed = 0.0, 0
    if action == "SAMPLE":
        place = cursor.current
        share = _number(cursor, "SAMPLE needs the percentage of rows to keep, as in 10 %") / 100
        if not (cursor.take(TokenType.MOD) or cursor.word("PERCENT")):
            raise cursor.error(f"expected % after SAMPLE, but {cursor.found()}.")
        if not 0 < share < 1:
            raise cursor.error("SAMPLE keeps more than 0 % and less than 100 % of the rows.", place)
        if cursor.word("SEED"):
            seed = int(_number(cursor, "SEED needs a whole number"))
    if not cursor.word("ABOVE"):
        raise cursor.error(f"expected ABOVE and a bound such as 50000 ROWS, 64 MB or 2 SECONDS, but {cursor.found()}.")
    place = cursor.current
    amount = _number(cursor, "ABOVE needs a bound such as 50000 ROWS, 64 MB or 2 SECONDS")
    unit = cursor.current
    found = (
        None
        if unit is None
        else UNITS.get(unit.text.upper().removesuffix("S") if len(unit.text) > 2 else unit.text.upper())
    )
    if unit is None or found is None:
        raise cursor.error(
            f"a bound is in ROWS, BYTES, KB, MB, GB, MILLISECONDS, SECONDS or MINUTES, but {cursor.found()}."
        )
    cursor.index += 1
    limit = round(amount * found[1])
    if limit < 1:
        raise cursor.error("the bound of ON OVERLOAD must be above 0.", place)
    return Overload(action.lower(), limit, found[0], share, seed)  # type: ignore[arg-type]


def overload_of(text: str) -> Overload:
    """The same written in Python: ``overload="sample 10 % above 50000 rows"``.

    >>> str(overload_of("drop above 64 MB"))
    'DROP ABOVE 64,000,000 BYTES'
    """
    cursor = Cursor(tokenize(text), text)
    cursor.word("ON", "OVERLOAD")
    made = parse_overload(cursor)
    if cursor.current is not None:
        raise cursor.error(f"expected nothing more, but {cursor.found()}.")
    return made


def _number(cursor: Cursor, needs: str) -> float:
    token = cursor.take(TokenType.NUMBER)
    if token is None:
        raise cursor.error(f"{needs}, but {cursor.found()}.")
    return float(token.text)
