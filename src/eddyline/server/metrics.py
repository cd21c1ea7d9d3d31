"""Counts in the form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.server.context import Context, memory


def metrics(context: Context, refused: int) -> str:
    return "".join(f"{line}\n" for line in _lines(context, refused))


def _lines(context: Context, refused: int) -> Iterator[str]:
    service = context.service
    queries = list(service.queries.values())
    followers = context.followers
    yield from _one("eddyline_memory_bytes", "gauge", "memory of the process", memory())
    yield from _one("eddyline_queries", "gauge", "queries that run", sum(r.query is not None for r in queries))
    yield from _one("eddyline_commits_total", "counter", "commits", service.commits)
    yield from _one("eddyline_commit_seconds_total", "counter", "time spent in commits", service.commit_seconds)
    yield from _one("eddyline_pushed_rows_total", "counter", "rows pushed", service.pushed_rows)
    yield from _one("eddyline_refused_requests_total", "counter", "requests that were refused", refused)
    yield from _one("eddyline_followers", "gauge", "connections that follow results", followers.count)
    slow = "followers that were dropped as too slow"
    yield from _one("eddyline_dropped_followers_total", "counter", slow, followers.dropped)
    starts = "starts of the process that serves followers"
    yield from _one("eddyline_followers_process_starts_total", "counter", starts, followers.starts)
    up = "1, or 0 when the state cannot be saved any more"
    yield from _one("eddyline_up", "gauge", up, 0 if service.broken else 1)
    yield from _head("eddyline_query_rows_total", "counter", "results of a query")
    for r in queries:
        yield f'eddyline_query_rows_total{{query="{_label(r.name)}"}} {r.journal.last}'
    streams = service.input_counts()
    for key in ("arrived", "late", "invalid", "shed", "held"):
        kind = "gauge" if key == "held" else "counter"
        name = f"eddyline_stream_{key}_rows" + ("" if kind == "gauge" else "_total")
        yield from _head(name, kind, f"rows of a stream: {key}")
        for stream, counts in streams.items():
            if key in counts:
                yield f'{name}{{stream="{_label(stream)}"}} {counts[key]}'


def _one(name: str, kind: str, help: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, help)
    yield f"{name} {value}"


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _label(text: str) -> str:
    r"""
    >>> _label('a "b"')
    'a \\"b\\"'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
