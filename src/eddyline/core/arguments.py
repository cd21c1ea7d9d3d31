"""Arguments of the public functions: what each must be, and the sentence where it is something else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError

SHOWN_CHARACTERS = 60  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as a message shows it.

    >>> shown(7), shown(None), shown(len)
    ('7 (int)', 'None', '<built-in function len> (builtin_function_or_method)')
    """
    if value is None:
        return "None"
    try:
        found = " ".join(repr(value).split())
    except Exception:  # it is not ours
        found = "a value"
    short = found if len(found) <= SHOWN_CHARACTERS else f"{found[:SHOWN_CHARACTERS]}…"
    return f"{short} ({type(value).__name__})"


def text(value: Any, what: str, *, empty: bool = False) -> str:
    """
    >>> text(5, "the name of a stream")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the name of a stream is a text, not 5 (int).
    """
    if not isinstance(value, str):
        raise JobError(f"{what} is a text, not {shown(value)}.")
    if not value and not empty:
        raise JobError(f"{what} is a text, and this one is empty.")
    return str(value)


def path(value: Any, what: str) -> Path:
    """
    >>> path(5, "learned")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: learned needs the path of a file, not 5 (int).
    """
    if not isinstance(value, str | Path) or not str(value).strip():
        raise JobError(f"{what} needs the path of a file, not {shown(value)}.")
    return Path(value)


def optional_text(value: Any, what: str) -> str | None:
    return None if value is None else text(value, what)


def texts(value: Any, what: str) -> tuple[str, ...]:
    """One text or several.

    >>> texts("k", "the key"), texts(["a", "b"], "the key")
    (('k',), ('a', 'b'))
    """
    if isinstance(value, str):
        return (text(value, what),)
    if not isinstance(value, Iterable) or isinstance(value, bytes | dict):
        raise JobError(f"{what} is a list of texts, not {shown(value)}.")
    found = tuple(value)
    for one in found:
        if not isinstance(one, str):
            raise JobError(f"{what} is a list of texts, and one of them is {shown(one)}.")
    return tuple(text(one, f"each of {what}") for one in found)


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise JobError(f"{what} is True or False, not {shown(value)}.")
    return bool(value)


def integer(value: Any, what: str) -> int:
    """A whole number that fits 64 bits."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise JobError(f"{what} is an integer, not {shown(value)}.")
    if not -(1 << 63) <= int(value) < 1 << 63:
        raise JobError(f"{what} must fit into 64 bits, and {value} does not.")
    return int(value)


def positive(value: Any, what: str) -> int:
    """
    >>> positive(0, "the budget")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the budget is an integer of at least 1, not 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise JobError(f"{what} is an integer of at least 1, not {value if isinstance(value, int) else shown(value)}.")
    return value


def schema(value: Any, what: str) -> pa.Schema | None:
    """An Arrow schema with columns of different names, or None."""
    if value is None:
        return None
    if not isinstance(value, pa.Schema):
        raise JobError(f"{what} is a pyarrow.Schema, such as pa.schema({{'ts': pa.int64()}}), not {shown(value)}.")
    twice = [n for n in value.names if value.names.count(n) > 1]
    if twice:
        raise JobError(f"{what} has two columns with the name {twice[0]!r}.")
    return value


def one_of(value: Any, known: tuple[str, ...], what: str) -> str:
    """
    >>> one_of("rows", ("row", "arrow"), "the kind of a function")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the kind of a function is 'row' or 'arrow', not 'rows'.
    """
    if not isinstance(value, str) or value not in known:
        *most, last = map(repr, known)
        given = repr(value) if isinstance(value, str) and len(value) <= SHOWN_CHARACTERS else shown(value)
        raise JobError(f"{what} is {', '.join(most)} or {last}, not {given}.")
    return value
