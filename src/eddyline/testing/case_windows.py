"""Random windows as CQL text, by their kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from eddyline.testing.case_blocks import Scale

WINDOWS: Final = ("rows", "range", "now", "slide", "partition", "unbounded")
# Windows that close, and the one whose elements have a time of their own: a second plane of cases, with Wstream.
CLOSING_WINDOWS: Final = ("tumble", "hop", "session", "until")


def window_text(kind: str, columns: Sequence[str], scale: Scale, rng: random.Random) -> str:
    """A window in brackets; ``columns`` are those by which it may be partitioned."""
    pick = rng.randint
    match kind:
        case "rows":
            return f"[ROWS {pick(1, 6)}]"
        case "range":
            return f"[RANGE {scale.width(pick(1, 15), rng)}]"
        case "now":
            return "[NOW]"
        case "slide":
            width, slide = (scale.width(n, rng) for n in (pick(1, 12), pick(1, 5)))
            return rng.choice([f"[RANGE {width} SLIDE {slide}]", f"[size {width} advance {slide}]"])
        case "partition":
            by = rng.sample(list(columns), rng.randint(1, min(2, len(columns))))
            return f"[PARTITION BY {', '.join(by)} ROWS {pick(1, 3)}]"
        case "tumble":
            return f"[TUMBLE {scale.width(pick(1, 10), rng)}{_offset(scale, rng)}]"
        case "hop":
            width, slide = (scale.width(n, rng) for n in (pick(1, 12), pick(1, 5)))
            return f"[HOP {width} EVERY {slide}{_offset(scale, rng)}]"
        case "session":
            by = rng.sample(list(columns), rng.choice([0, 1, 1, 1, min(2, len(columns))]))
            parts = f" PARTITION BY {', '.join(by)}" if by else ""
            return f"[SESSION {scale.width(pick(1, 9), rng)} GAP{parts}]"
        case "until":
            return "[UNTIL u]"
        case _:
            return rng.choice(["[ROWS UNBOUNDED]", "[RANGE UNBOUNDED]"])


def _offset(scale: Scale, rng: random.Random) -> str:
    if rng.random() < 0.7:
        return ""
    return f" OFFSET {rng.choice(['', '-'])}{scale.width(rng.randint(1, 7), rng)}"
