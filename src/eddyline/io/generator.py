"""Generated streams as sources: ``'generate:packets?link=C&rate=2000&seconds=60&seed=7'``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.datasets.generate import Generated
from eddyline.datasets.registry import generate
from eddyline.io.ahead import ahead
from eddyline.io.conform import conform, declared_columns, engine_schema
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned

SCHEME = "generate:"


class GeneratorSource:
    """A generator as a source; the same seed gives the same rows however they are cut into batches."""

    def __init__(self, generated: Generated, schema: pa.Schema | None = None, name: str = "the generator") -> None:
        if schema is not None:
            schema = declared_columns(schema, generated.schema.names, name)
        self._generated, self._name = generated, name
        self.schema = engine_schema(schema if schema is not None else generated.schema, name)
        self.finite = generated.finite

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        return ahead(
            conform(batch.select(wanted.names), wanted, self._name) for batch in self._generated.batches(batch_rows)
        )


def generator_source(uri: str, schema: pa.Schema | None = None) -> GeneratorSource:
    """
    >>> generator_source("generate:trades?events=3&seed=1").schema.names
    ['ts', 'symbol', 'price', 'size']
    """
    name, _, query = uri.removeprefix(SCHEME).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    twice = {k for k, _ in pairs if sum(k == other for other, _ in pairs) > 1}
    if twice:
        raise JobError(f"{uri}: {sorted(twice)[0]!r} is given twice.")
    return GeneratorSource(generate(name, dict(pairs)), schema, f"{SCHEME}{name}")
