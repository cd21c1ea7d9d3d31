"""Errors for files that were removed after the query started."""

from __future__ import annotations

from pathlib import Path

from eddyline.core.errors import EddylineError


def present(path: Path) -> Path:
    if not path.is_file():
        raise EddylineError(
            f"{path.name} cannot be read from {str(path.parent)!r}: it is gone, or this machine does not see it; every"
            " worker must find the files under the same path."
        )
    return path
