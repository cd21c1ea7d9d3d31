"""Finds Eddyline's own error message inside Spark's exception.

An error that stops a query is raised in a Python worker. On its way to the driver Spark wraps it into a task failure, a
job failure and perhaps a failed streaming query, each with stack traces of two languages, and only its *text* survives.
So the worker puts marks around the message, with the exit status, and the driver looks for them. Users should not see
the marks: code that catches Spark's exception should show ``sentence(error)`` instead where it finds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.core.errors import EddylineError, JobError
from eddyline.spark.jvm import reason

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
    eddyline.spark.failures.WorkerError: [[eddyline:2]] no such column 'a'. [[/eddyline]]
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


def stopped(error: BaseException, more: str = "") -> EddylineError | None:
    """What stopped a job that is no mistake of ours or of the user's, in one sentence out of Spark's pages of stack
    traces, and where to find ``more``; None if the exception is not Spark's.

    >>> print(stopped(OSError("x")))
    None
    """
    chain = [e for e in _chain(error) if type(e).__module__.startswith(("py4j", "pyspark"))]
    if not chain:
        return None
    said = "\n".join(text for e in chain for text in _texts(e))
    return EddylineError(f"Spark stopped the job: {why(said)}{more}.")


def why(said: str) -> str:
    """The reason in what Spark says, where it is one that has a remedy; else its innermost one.

    >>> why("Job aborted … java.io.IOException: No space left on device\\n\\tat java.base/java.io.FileOutputStream")
    "no space is left on a disk (make room in the checkpoint and in Spark's temporary folder, SPARK_LOCAL_DIRS)"
    >>> why("Job aborted … org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\\n\\tat a.b")
    'a Python worker was ended from outside (killed, or the machine has no more memory)'
    >>> why("java.io.IOException: Stream closed\\n\\tat java.io.A\\n\\tat org.apache.spark.api.python.C") == _
    True
    >>> why("An error occurred.\\n: a.b.CException: outer\\n\\tat c\\nCaused by: d.EError: inner\\n\\tat f")
    'inner'
    """
    for pattern, meaning in _KNOWN:
        if pattern.search(said):
            return meaning
    return reason(said.splitlines())


_KNOWN = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "no space is left on a disk (make room in the checkpoint and in Spark's temporary folder, SPARK_LOCAL_DIRS)",
    ),
    (
        # Or the JVM's error when it writes to a worker that has ended.
        re.compile(
            r"(?s)Python worker exited unexpectedly|(Stream closed|Socket closed|Connection reset|Broken pipe"
            r"|EOFException).*\n\s+at org\.apache\.spark\.[\w.]*python"
        ),
        "a Python worker was ended from outside (killed, or the machine has no more memory)",
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError"),
        'Java has no more memory (PYSPARK_SUBMIT_ARGS="--driver-memory 4g pyspark-shell" gives it more)',
    ),
    (
        re.compile(r"ExecutorLostFailure|All masters are unresponsive|Master removed our application"),
        "the cluster's executors were lost and none came in their place",
    ),
)


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
