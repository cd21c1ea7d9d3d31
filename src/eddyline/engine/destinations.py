"""Checks that no two outputs of a job go to one file: no two results, no result in a file that the job reads, and no
report in either. The checks read the statements alone, before anything runs; the files need not exist yet.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from eddyline.core.errors import CqlError, JobError, Span
from eddyline.cql.job import CreateRelation, CreateStream, QueryStatement, Statement
from eddyline.cql.query_names import file_names, folded
from eddyline.engine.job_text import JobText
from eddyline.io.directory import complete


@dataclass(frozen=True, slots=True)
class Place:
    """A file to be written: its path, what to call it in a message, and where the job says so."""

    path: Path
    shown: str
    span: Span | None = None


def result_folder(out: Path | None, queries: int) -> bool:
    """Whether ``--out`` names a folder with a file for each query."""
    return out is not None and str(out) != "-" and (queries > 1 or out.suffix == "")


def check_destinations(
    job: JobText,
    statements: Sequence[Statement],
    out: Path | None = None,
    further: Sequence[tuple[str, Path | None]] = (),
    state: Sequence[Path] = (),
) -> None:
    """Refuse a job whose results would meet each other, its inputs, the job itself, or the folders of its ``state``.
    ``further`` are other files that are written, each with its option."""
    queries = [s for s in statements if isinstance(s, QueryStatement)]
    places = list(_places(job, queries, out))
    seen: dict[str, Place] = {}
    for place in places:
        key = folded(str(_real(place.path)))
        if key in seen:
            first = seen[key]
            both = place.shown if first.shown == place.shown else f"{first.shown} and {place.shown}, which are one file"
            raise CqlError(f"two queries write to {both}; give each a file of its own.", job.text, place.span)
        seen[key] = place
    for option, path in further:
        if path is None or str(path) == "-":
            continue
        place, key, what = Place(path, f"{option} {str(path)!r}"), folded(str(_real(path))), option.removeprefix("--")
        if key in seen:
            of = f"the {seen[key].shown[2:].split()[0]}" if seen[key].shown.startswith("--") else "a result"
            raise JobError(f"{place.shown} is also the file of {of}; give the {what} another one.")
        seen[key] = place
        places.append(place)
    _check_standard_output(job, queries, out)
    _check_inputs(job, statements, places)
    for place in places:
        for folder in state:
            if _real(place.path).is_relative_to(_real(folder)):
                lies = f"it is in the folder {folder.name!r} of the checkpoint, which holds state: write elsewhere"
                raise _error(job, place, lies)
        if job.file is not None and _same(place.path, job.file):
            raise _error(job, place, "this is the job itself, so nothing can be written there")


def _places(job: JobText, queries: Sequence[QueryStatement], out: Path | None) -> Iterator[Place]:
    folder = result_folder(out, len(queries))
    for query, name in zip(queries, file_names([q.name for q in queries]), strict=True):
        if query.target is not None:
            if query.target != "-":
                yield Place(job.base / Path(query.target).expanduser(), repr(query.target), query.target_span)
        elif out is not None and str(out) != "-":
            path = out / f"{name}.parquet" if folder else out
            yield Place(path, repr(str(path)), query.name_span or query.span)


def _check_standard_output(job: JobText, queries: Sequence[QueryStatement], out: Path | None) -> None:
    own = [q for q in queries if q.target == "-" or (q.target is None and out is not None and str(out) == "-")]
    if len(own) > 1:
        message = "the job has several queries, and standard output takes one; give --out a folder."
        raise CqlError(message, job.text, own[1].target_span or own[1].name_span or own[1].span)


def _check_inputs(job: JobText, statements: Sequence[Statement], places: Sequence[Place]) -> None:
    for s in statements:
        if not isinstance(s, CreateStream | CreateRelation) or s.source.strip() in ("", "-"):
            continue
        pattern = job.base / Path(s.source.removeprefix("file://")).expanduser()
        for place in places:
            if _same(place.path, pattern):
                raise _error(job, place, f"{s.source!r} is read by the job, so its results cannot be written there")
            if _reads(pattern, place.path):
                message = f"the job reads what is in {s.source!r}, and its own results would be read with it"
                raise _error(job, place, message)


def _reads(pattern: Path, path: Path) -> bool:
    """Whether a source that is a folder or a glob takes a file of this name in."""
    if not complete(path):
        return False
    with contextlib.suppress(OSError):  # opening the file reports a name that is too long
        if pattern.is_dir():
            return _same(path.parent, pattern)
    if not glob.has_magic(str(pattern)):
        return False
    return _matches(_real(path).parts, Path(os.path.abspath(pattern)).parts)  # noqa: PTH100 - a glob is no path


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _same(a: Path, b: Path) -> bool:
    """One file, whatever it is called: a link, another case on a file system that ignores case, a path with ``..``."""
    try:
        return a.samefile(b)
    except OSError:  # one of them is not there (yet)
        return _real(a) == _real(b)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _error(job: JobText, place: Place, message: str) -> JobError:
    if place.span is None:
        return JobError(f"{place.shown}: {message}.")
    return CqlError(f"{message}; write to another file than {place.shown}.", job.text, place.span)
