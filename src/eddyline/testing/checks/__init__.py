"""Contract checks: the promises of every policy, operator, synopsis, source and sink, as functions to call.

``all_checks()`` yields a named check for each promise of each thing that is registered: strategies by
``streamon.strategies.strategy``, everything else by ``register``. The package's own tests run all of them; a policy, an
operator, a synopsis, a source or a sink of your own is checked by ``check_policy``, ``check_operator`` and so on, or
with the others once it is registered.

>>> from eddyline.testing.checks import all_checks
>>> names = [str(check) for check in all_checks("sink")]
>>> names[0]
'sink file .parquet: has exactly the rows, however they are cut'
"""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.testing.checks.check import Check, CheckFailed, run_all
from eddyline.testing.checks.io_examples import sink_examples, source_examples
from eddyline.testing.checks.operator_examples import operator_examples
from eddyline.testing.checks.operators import OperatorExample, QueryExample, check_operator, operator_checks, record
from eddyline.testing.checks.policies import all_policy_checks, check_policy, policy_checks
from eddyline.testing.checks.sinks import SinkExample, check_sink, sink_checks
from eddyline.testing.checks.sources import SourceExample, check_source, source_checks
from eddyline.testing.checks.synopses import SynopsisAdapter, SynopsisExample, check_synopsis, synopsis_checks
from eddyline.testing.checks.synopsis_examples import SYNOPSES

__all__ = [
    "Check",
    "CheckFailed",
    "OperatorExample",
    "QueryExample",
    "SinkExample",
    "SourceExample",
    "SynopsisAdapter",
    "SynopsisExample",
    "all_checks",
    "check_operator",
    "check_policy",
    "check_query",
    "check_sink",
    "check_source",
    "check_synopsis",
    "policy_checks",
    "record",
    "register",
    "run_all",
]

KINDS = ("policy", "operator", "synopsis", "source", "sink")

Example = QueryExample | OperatorExample | SynopsisExample | SourceExample | SinkExample

_REGISTERED: list[Example] = []


def register(example: Example) -> None:
    """Have ``all_checks`` check this, too. Of a query every operator is checked."""
    _REGISTERED.append(example)


def all_checks(*kinds: str) -> Iterator[Check]:
    """The checks of everything that is registered, or of these kinds: ``policy``, ``operator``, ``synopsis``,
    ``source``, ``sink``."""
    for kind in kinds or KINDS:
        match kind:
            case "policy":
                yield from all_policy_checks()
            case "operator":
                for operator in (*operator_examples(), *_operators()):
                    yield from operator_checks(operator)
            case "synopsis":
                for synopsis in (*SYNOPSES, *(e for e in _REGISTERED if isinstance(e, SynopsisExample))):
                    yield from synopsis_checks(synopsis)
            case "source":
                for source in (*source_examples(), *(e for e in _REGISTERED if isinstance(e, SourceExample))):
                    yield from source_checks(source)
            case "sink":
                for sink in (*sink_examples(), *(e for e in _REGISTERED if isinstance(e, SinkExample))):
                    yield from sink_checks(sink)
            case _:
                raise ValueError(f"there are checks of {', '.join(KINDS)}, not of {kind!r}.")


def check_query(example: QueryExample) -> int:
    """Check every operator of a query on what the query calls it with; how many checks there were."""
    return run_all(check for operator in record(example) for check in operator_checks(operator))


def _operators() -> Iterator[OperatorExample]:
    for example in _REGISTERED:
        if isinstance(example, OperatorExample):
            yield example
        elif isinstance(example, QueryExample):
            yield from record(example)
