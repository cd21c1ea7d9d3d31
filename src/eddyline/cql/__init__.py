"""CQL: text to bound queries. ``bind`` is the way in, ``cql.job`` reads whole jobs, ``cql.printing`` writes plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eddyline.core.catalog import Catalog
    from eddyline.cql.job import Statement
    from eddyline.plan.logical import BoundQuery

__all__ = ["bind"]


def bind(query: str | Statement, catalog: Catalog) -> BoundQuery:
    """Bind a query (see ``cql.binder.bind``); the parser is imported here, so that ``import eddyline`` stays quick."""
    from eddyline.cql.binder import bind as bind_now

    return bind_now(query, catalog)
