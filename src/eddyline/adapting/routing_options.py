"""What a query's options say about routing by content: the policy, its parameters, the classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eddyline.adapting.eddy_attributes import may_classify
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.known_classifier import KnownClassifier
from eddyline.adaptive.routing.policies import POLICIES
from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.errors import JobError, did_you_mean
from eddyline.core.schema import Schema
from eddyline.streamon.strategies import KINDS, check_options, parse


def _names() -> tuple[str, ...]:
    return (*POLICIES, KnownClassifier.name)


CLASSIFIER, PARTITIONS = "classifier", "d"


@dataclass(frozen=True, slots=True)
class Routing:
    """``policy`` by name with its ``parameters``; ``classifier`` is the column by which known-classifier routes; ``d``
    the number of partitions of each attribute.

    >>> Routing.of({"routing": "content-learns(R=300)", "p": 0.1})
    Routing(policy='content-learns', parameters={'R': 300, 'P': 0.1}, classifier=None, d=24)
    >>> Routing.of({"routing": "known-classifier"})
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: known-classifier needs its classifier: WITH (routing = 'known-classifier', ...
    """

    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classifier: str | None = None
    d: int = 24

    @staticmethod
    def of(options: Mapping[str, Any]) -> Routing | None:
        """From ``WITH (routing = 'content-learns', R = 300)``, checked; None where a query does not ask for it."""
        named = options.get("routing")
        if named is None:
            return None
        if not isinstance(named, str):
            raise JobError(f"the option 'routing' is one of {', '.join(_names())}, not {named!r}.")
        if options.get("filters") is not None:
            raise JobError("a query is ordered by 'filters' or routed by 'routing', not by both: leave one out.")
        name, written = parse(named, KINDS["routing"], _names())
        own = _parameters(name)
        check_options(name, "routing", written, own)
        # The names of options in a text are read in lower case.
        given = {p: options[n] for p in own for n in (p, p.lower()) if n in options}
        parameters = {**written, **given}
        d = parameters.pop(PARTITIONS, 24)
        if not isinstance(d, int) or isinstance(d, bool):
            raise JobError(f"the option 'd' is a whole number from 2 to 4,096, not {d!r}.")
        classifier = options.get(CLASSIFIER)
        found = Routing(name, parameters, None if classifier is None else str(classifier), d)
        if name == KnownClassifier.name and classifier is None:
            raise JobError(
                "known-classifier needs its classifier: WITH (routing = 'known-classifier', classifier = 'a column')."
            )
        if name != KnownClassifier.name and classifier is not None:
            raise JobError(f"the routing policy {name!r} finds its classifiers itself: leave 'classifier' out.")
        found.make(Setting(Pipeline(1), (found.classifier or "a",), d))
        return found

    @property
    def options(self) -> tuple[str, ...]:
        """The names of options that the policy reads, which are options of the query."""
        own = _parameters(self.policy)
        more = (CLASSIFIER,) if self.policy == KnownClassifier.name else ()
        return (*dict.fromkeys((*own, *map(str.lower, own), *more)),)

    def check(self, schema: Schema, who: str) -> None:
        """Whether the rows of a selection have what the policy needs."""
        if self.classifier is not None:
            self.column([f.name for f in schema if may_classify(f.type)], who)

    def column(self, names: list[str], who: str = "the selection") -> str:
        """The classifier among columns, with or without the alias of its stream."""
        assert self.classifier is not None
        wanted = self.classifier.lower()
        found = [n for n in names if n.lower() == wanted] or [n for n in names if n.lower().endswith(f".{wanted}")]
        if len(found) == 1:
            return found[0]
        hint = did_you_mean(self.classifier, names) or f" It may be one of {', '.join(names)}."
        raise JobError(f"{who} cannot route by {self.classifier!r}: the query reads no such column there.{hint}")

    def offered(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns that may classify: all, or the one that is named."""
        usable = {n: c for n, c in columns.items() if may_classify(c.type)}
        if self.policy == "sbr":
            return {}
        if self.classifier is None:
            return usable
        name = self.column(list(usable))
        return {name: usable[name]}

    def make(self, setting: Setting) -> RoutingPolicy:
        made: RoutingPolicy
        if self.policy == KnownClassifier.name:
            made = KnownClassifier(setting, 0, **self.parameters)
        else:
            made = POLICIES[self.policy].make(setting, **self.parameters)
        return made


def _parameters(name: str) -> tuple[str, ...]:
    """What can be asked of a policy, and of the eddy around it."""
    own = KnownClassifier.parameters if name == KnownClassifier.name else POLICIES[name].parameters
    return (*(p.name for p in own), PARTITIONS)
