"""From the path, URI or object that names a source to the connector that reads it."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from eddyline.core.arguments import shown
from eddyline.core.errors import JobError, did_you_mean, did_you_mean_file
from eddyline.io.csv import CsvSource, Dialect
from eddyline.io.directory import DirectorySource, complete
from eddyline.io.generator import SCHEME, generator_source
from eddyline.io.jsonl import JsonLinesSource
from eddyline.io.memory import is_frame, memory_source
from eddyline.io.parquet import ParquetSource
from eddyline.io.segments import files_of_segments
from eddyline.io.source import Source, StrictSource
from eddyline.io.stdin import stdin_source
from eddyline.io.text import COMPRESSIONS

FORMATS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}

OPTIONS: Final[Mapping[str, str]] = {
    "format": "parquet, csv, tsv or jsonl, where the name does not show it",
    "header": "whether the first line of a CSV file names the columns (true)",
    "delimiter": "the character between CSV fields (,)",
    "quote": "the character around CSV values ('\"'; an empty text for none)",
    "null": "a text that means NULL in CSV, beside the empty one",
    "dictionary": "hand Parquet strings over dictionary-encoded (where the file stores them so to good effect)",
    "strict": "stop at the first malformed row (false)",
    "watch": "also read files that appear later in the directory (false)",
    "arrival": "stamp the rows of a finite source when they are read, not by a column of time (false)",
    "poll": "seconds between two looks at a watched directory (1)",
    "until_idle": "end a watched directory after so many seconds without a new file",
}


def open_source(
    spec: Any,
    base: Path | None = None,
    schema: pa.Schema | None = None,
    options: Mapping[str, Any] | None = None,
    timestamp: str | None = None,
) -> Source:
    """Find and open a source: a path, a glob, a directory, ``'-'``, a ``generate:`` URI or a Python object.

    Relative paths start at ``base``. ``schema`` is the declared one: its columns must be there, others are not read.
    ``options`` are those of ``OPTIONS``; others belong to other readers. ``timestamp`` names the column of
    time: where a text file has a header and no rows, nothing else says that it is one.

    >>> open_source([{"ts": 1}]).schema.names
    ['ts']
    """
    chosen = {k.lower(): v for k, v in (options or {}).items()}
    source = _open(spec, base, schema, chosen)
    if schema is None and isinstance(spec, str | Path) and spec != "-":
        untimed = [n for n, t in zip(source.schema.names, source.schema.types, strict=True) if pa.types.is_null(t)]
        if timestamp is not None and timestamp.lower() in (n.lower() for n in untimed):
            timed = [(f.name, pa.int64() if f.name.lower() == timestamp.lower() else f.type) for f in source.schema]
            source = _open(spec, base, pa.schema(timed), chosen)
    return StrictSource(source) if truth(chosen.get("strict", False), "strict") else source


def _open(spec: Any, base: Path | None, schema: pa.Schema | None, options: Mapping[str, Any]) -> Source:
    if isinstance(spec, Path):
        spec = str(spec)
    if isinstance(spec, Source):
        return spec
    if is_frame(spec):
        raise JobError(
            "only ed.Session(spark) reads a Spark DataFrame, and this session runs in this process: pass df.toArrow(),"
            " which copies all rows to this process, or declare it in a session of the SparkSession."
        )
    if not isinstance(spec, str):
        return memory_source(spec, schema)
    if spec == "-":
        return stdin_source(str(options.get("format", "csv")).lower(), schema, _dialect(options, ","))
    if spec.startswith(SCHEME):
        return generator_source(spec, schema)
    if spec.lower().startswith("spark:"):
        raise JobError(f"only Spark reads {spec!r}; run the job with --runtime spark.")
    if "://" in spec:
        scheme, _, rest = spec.partition("://")
        if scheme != "file":
            raise JobError(f"sources of the kind '{scheme}://' are not known: use a path, '-' or 'generate:…'.")
        spec = rest
    if not spec.strip():
        raise JobError("a source needs a path, and this one is an empty text.")
    path = Path(spec).expanduser()
    path = path if path.is_absolute() or base is None else base / path
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # said below, with what stands near
    except (OSError, ValueError) as error:
        raise JobError(f"the source {shown(spec)} cannot be read: {getattr(error, 'strerror', error)}.") from error
    if path.is_dir():
        if truth(options.get("watch", "until_idle" in options), "watch"):
            return _watched(path, "*", schema, options)
        return files_source(_inside(path, spec), schema, options)
    if path.exists():
        return files_source([path], schema, options)
    if glob.has_magic(spec):
        if truth(options.get("watch", "until_idle" in options), "watch"):
            if not path.parent.is_dir():
                raise JobError(f"{spec}: there is no directory {path.parent.name!r}.{_near(path.parent)}")
            return _watched(path.parent, path.name, schema, options)
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True))  # noqa: PTH207 - it may be absolute
        files = [p for p in found if p.is_file() and complete(p)]
        if not files:
            raise JobError(f"no file matches {spec!r}.{_near_glob(path)}")
        return files_source(files, schema, options)
    raise JobError(f"there is no file {spec!r}.{_near(path)}")


def files_source(paths: Sequence[Path], schema: pa.Schema | None, options: Mapping[str, Any]) -> Source:
    """One source over files of one format, read in the given order."""
    formats = {str(options["format"]).lower()} if "format" in options else {format_of(p) for p in paths}
    if len(formats) > 1:
        raise JobError(
            f"{paths[0].parent.name}: files of different formats ({', '.join(sorted(formats))}) cannot be one source; "
            "choose some with a pattern such as '*.csv'."
        )
    match formats.pop():
        case "parquet":
            segments = files_of_segments(paths) if schema is None else None
            if segments is not None:
                return segments
            encoded = truth(options["dictionary"], "dictionary") if "dictionary" in options else None
            return ParquetSource(paths, schema, dictionary=encoded)
        case "csv":
            return CsvSource(paths, schema, dialect=_dialect(options, ","))
        case "tsv":
            return CsvSource(paths, schema, dialect=_dialect(options, "\t"))
        case "jsonl" | "json" | "ndjson":
            return JsonLinesSource(paths, schema)
        case other:
            known = sorted(set(FORMATS.values()))
            raise JobError(f"unknown format {other!r}: use {', '.join(known)}.{did_you_mean(other, known)}")


def format_of(path: Path) -> str:
    """
    >>> format_of(Path("a.csv.gz")), format_of(Path("b.PARQUET"))
    ('csv', 'parquet')
    """
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    suffix = plain.suffix.lower()
    if suffix in FORMATS and not (FORMATS[suffix] == "parquet" and plain is not path):
        return FORMATS[suffix]
    known = ", ".join(FORMATS)
    raise JobError(
        f"{path.name}: the extension {path.suffix!r} is not that of a format (known: {known}, the text formats also "
        f"with {', '.join(COMPRESSIONS)}).{did_you_mean(path.suffix, FORMATS)} Or say it: WITH (format = 'csv')."
    )


def _watched(folder: Path, pattern: str, schema: pa.Schema | None, options: Mapping[str, Any]) -> DirectorySource:
    def reader(path: Path, declared: pa.Schema | None) -> Source:
        return files_source([path], declared, options)

    return DirectorySource(
        folder,
        reader,
        schema,
        pattern=pattern,
        poll=_number(options.get("poll", 1.0), "poll"),
        until_idle=None if options.get("until_idle") is None else _number(options["until_idle"], "until_idle"),
    )


def _inside(folder: Path, spec: str) -> list[Path]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and complete(p))
    if not files:
        raise JobError(f"the directory {spec!r} holds no data file; to wait for some, say WITH (watch = true).")
    return files


def _dialect(options: Mapping[str, Any], delimiter: str) -> Dialect:
    chosen, quote = str(options.get("delimiter", delimiter)), str(options.get("quote", '"'))
    chosen = chosen.replace("\\t", "\t")
    for name, value, least in (("delimiter", chosen, 1), ("quote", quote, 0)):
        if not least <= len(value) <= 1 or not value.isascii():
            raise JobError(f"{name} = {value!r}: one ASCII character is wanted.")
    null = options.get("null")
    if not isinstance(null, str | list | tuple | set | None):
        raise JobError(f"null = {shown(null)}: a text, or a list of texts, is wanted.")
    texts = () if null is None else (null,) if isinstance(null, str) else tuple(str(n) for n in null)
    return Dialect(chosen, quote or None, truth(options.get("header", True), "header"), ("", *texts))


def truth(value: Any, name: str) -> bool:
    """An option that is on or off, as it may be written."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise JobError(f"{name} = {value!r}: true or false is wanted.")


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise JobError(f"{name} = {value!r}: a number of seconds is wanted.") from error
    if not number >= 0:
        raise JobError(f"{name} = {value!r}: a number of seconds is wanted.")
    return number


def _near(path: Path) -> str:
    """What stands next to a missing path: the nearest name in its folder, or the folder that is missing."""
    folder = path.parent
    if not folder.is_dir():
        return f" There is no directory {folder.name!r}.{_near(folder)}" if folder != folder.parent else ""
    names = [p.name for p in folder.iterdir()]
    return did_you_mean_file(path.name, names) or (f" Its directory holds: {_some(names)}." if names else "")


def _near_glob(path: Path) -> str:
    folder = path.parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return _near(folder / "x").replace(" Its directory", " The directory")
    names = [p.name for p in folder.iterdir()]
    return f" The directory holds: {_some(names)}." if names else f" The directory {folder.name!r} is empty."


def _some(names: Sequence[str], limit: int = 5) -> str:
    shown = sorted(names)[:limit]
    return ", ".join(shown) + (", …" if len(names) > limit else "")
