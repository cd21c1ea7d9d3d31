"""Our own one sentence, found again inside Spark's exception.

An error that stops a query is raised in a Python worker. On its way to the driver Spark wraps it into a task failure, a
job failure and perhaps a failed streaming query, each with stack traces of two languages, and only its *text* survives.
So the worker puts marks around the sentence, with the exit status, and the driver looks for them. The marks are for
machines: whoever catches Spark's exception should show ``sentence(error)`` instead where it finds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.core.errors import EddylineError, JobError

_MARKED = re.compile(r"\[\[eddyline:(\d+)\]\] (.*?) \[\[/eddyline\]\]", re.DOTALL)


class WorkerError(Exception):
    """An ``EddylineError`` on its way from a worker to the driver."""


@contextmanager
def carried() -> Iterator[None]:
    """Around what runs in a worker: our own errors leave it with their marks.

    >>> with carried():
    ...     raise JobError("no such column 'a'.")
    Traceback (most recent call last):
    ...
    eddyline.runtime.spark.failures.WorkerError: [[eddyline:2]] no such column 'a'. [[/eddyline]]
    """
    try:
        yield
    except EddylineError as error:
        raise WorkerError(f"[[eddyline:{error.exit_status}]] {error} [[/eddyline]]") from None


def original(error: BaseException) -> EddylineError | None:
    """The error that a worker raised, or None if the exception is not one of ours.

    A mistake in the job is a ``JobError`` again (exit status 2), everything else an ``EddylineError``.

    >>> spark_says = "Job aborted: … [[eddyline:1]] division by zero in 'a / b' [[/eddyline]]\\n\\tat org.apache…"
    >>> original(RuntimeError(spark_says))
    EddylineError("division by zero in 'a / b'")
    """
    for e in _chain(error):
        if isinstance(e, EddylineError):
            return e
        for text in _texts(e):
            found = _MARKED.search(text)
            if found is not None:
                status, message = found.groups()
                return JobError(message) if int(status) == JobError.exit_status else EddylineError(message)
    return None


def sentence(error: BaseException) -> str | None:
    """What to show instead of Spark's exception; None if it is not one of ours."""
    found = original(error)
    return None if found is None else str(found)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _texts(error: BaseException) -> Iterator[str]:
    """All that an exception says, cheapest first; the longer forms may have to be fetched from the JVM."""
    yield str(error)
    for name in ("_desc", "_message", "_stackTrace"):  # of Spark's captured exceptions
        text = getattr(error, name, None)
        if isinstance(text, str):
            yield text
    get_stack_trace = getattr(error, "getStackTrace", None)  # Spark Connect keeps the server's texts apart
    if callable(get_stack_trace):
        text = get_stack_trace()
        if isinstance(text, str):
            yield text
