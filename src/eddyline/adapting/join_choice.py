"""How the joins of a query are run: what its options say, and what is done where they say nothing.

``joins`` names the policy that orders the pipelines of joins of three and more inputs, ``caches`` the one that places
caches in them, ``tree`` fixes the plan of a comparison: an XJoin or any tree of MJoins, every subresult kept whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eddyline.adapting.join_pacing import Pace
from eddyline.adaptive.filters import policies as ordering
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.joins import policies as caching
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.adaptive.joins.trees import Tree, leaves, plan, render
from eddyline.core.amounts import bytes_of
from eddyline.core.errors import JobError
from eddyline.core.time import Clock, SystemClock
from eddyline.operators.join_plan import CacheSpec
from eddyline.plan.candidates import named_by, names_for
from eddyline.plan.graph import alias_of, distinct
from eddyline.plan.logical import Join, Plan
from eddyline.plan.traverse import each
from eddyline.streamon.decision import USER, Decision
from eddyline.streamon.strategies import known_name, strategies

if TYPE_CHECKING:  # A job without joins starts without their kernels.
    from eddyline.adapting.adaptive_join import AdaptiveJoin
    from eddyline.operators.mjoin import MJoin

STAYS, OURS = "static", "default"
# Beyond the papers' defaults: where elements take less than a microsecond, 10,000 of them are no interval.
_EXAMPLES = {"joins": "a-greedy", "caches": "global(memory=65536)", "tree": "((R, S), T)"}
DEFAULT_CACHES: dict[str, Any] = {"interval": 500_000, "W": 64, "W_d": 1024}
# What an access of a cache takes, in accesses of an index. Where no policy is named, caches have to pay in time.
CACHE_ACCESS_COST = 3.0
# ``p`` and ``burst`` are shares of the elements of a profiling run, few of all; profiling may cost as much as the run.
# An order has to spare a tenth of the accesses where it differs: which inputs several pipelines visit first decides
# what stays in the processor's cache, one or two percent of the time that no access shows.
DEFAULT_ORDERS: dict[str, Any] = {"alpha": 0.9, "p": 0.05, "burst": 0.2, "overhead": 1.0, "confidence": 3.0}


def _known_join(written: str) -> None:
    """Refuse a name that is neither an ordering policy nor a join operator, with those that come near."""
    name = re.match(r"\s*([-\w]+)", written)
    operators = names_for("joins")
    if name and known_name(name.group(1), "join", [*strategies("joins"), *operators]) in operators:
        raise JobError(
            f"write joins = {name.group(1).lower()!r}, not {written!r}: the parameters of an operator stand in options "
            "of their own, those of a multi-route join in index = 'amri(…)'."
        )


@dataclass(frozen=True, slots=True)
class Joining:
    """How the joins of one query are run.

    >>> Joining.of({"joins": "a-greedy(p = 0.05)", "caches": "none"}).caches
    'none'
    >>> Joining.of({"caches": "gobal"})
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown cache policy 'gobal'. Did you mean 'global'?
    """

    joins: str | None = None  # None: not named, so the default
    caches: str | None = None
    tree: str | None = None
    clock: Clock = field(default_factory=SystemClock)
    memory: int | None = None  # bytes for the caches of all joins together; None: no limit

    @staticmethod
    def of(options: Mapping[str, Any], clock: Clock | None = None) -> Joining:
        """From ``WITH (joins = 'a-greedy', caches = 'global(memory = 65536)')``, checked."""
        for name in ("joins", "caches", "tree"):
            if options.get(name) is not None and not isinstance(options[name], str):
                raise JobError(f"the option '{name}' is a text such as {_EXAMPLES[name]!r}, not {options[name]!r}.")
        joins, caches, tree = (options.get(name) for name in ("joins", "caches", "tree"))
        if tree is not None and (joins is not None or caches is not None):
            raise JobError(
                "the option 'tree' fixes the plan of a join; 'joins' and 'caches' cannot be given beside it."
            )
        if named_by("joins", joins) is not None:
            joins = None  # it names an operator, which has policies of its own or none
        if joins is not None:
            _known_join(joins)
            ordering.make_policy(joins, Pipeline(2), "joins")
        if caches is not None:
            caching.make_caching(caches, Shape(3, (frozenset(range(3)),)), "RST")
        memory = memory_of(options)
        if memory is not None and caches is not None and "memory" in caching.parse_policy(caches)[1]:
            raise JobError(
                f"the memory of caches is given twice, as the option 'memory' and in {caches!r}: leave one out."
            )
        return Joining(joins, caches, tree, clock or SystemClock(), memory)

    def check(self, plan: Plan) -> None:
        """Refuse a tree that fits none of the joins of a plan."""
        if self.tree is None:
            return
        joins = [distinct([alias_of(i) for i in p.inputs]) for p in each(plan) if isinstance(p, Join)]
        if not joins:
            raise JobError("the option 'tree' draws the plan of a join, and this query has no join: leave it out.")
        if not any(named_in(self.tree, names) for names in joins):
            read_tree(self.tree, joins[0])  # says what is wrong

    @staticmethod
    def instead_of(option: str) -> str | None:
        """What to write instead of a parameter of a cache policy that stands by itself.

        >>> Joining.instead_of("interval")
        "It is a parameter of a cache policy: write caches = 'global(interval = …)'."
        """
        if option not in {p.name for p in caching.POLICIES["global"].parameters}:
            return None
        return f"It is a parameter of a cache policy: write caches = 'global({option} = …)'."

    def nothing_to_adapt(self, size: int, simple: Callable[[], bool]) -> str | None:
        """Why a join of so many inputs has nothing to adapt; None where it has. ``simple`` says whether caches are
        possible.

        >>> Joining.of({"joins": "static", "caches": "none"}).nothing_to_adapt(3, simple=lambda: True)
        'orders that stay and no caches leave nothing to adapt'
        """
        if size < 3:
            return "two inputs have one order, and no subresult to cache"
        if ordering.parse_policy(self.joins or OURS, "joins")[0] != STAYS:
            return None
        cached = _name(self.caches or "global") != "none" and simple()
        return None if cached else "orders that stay and no caches leave nothing to adapt"

    def stay(self, join: MJoin, names: Sequence[str]) -> None:
        """Leave a join the orders that it has."""
        if join.graph.size > 2:
            from eddyline.adapting.fixed_join import FixedJoin

            join.adapter = FixedJoin(distinct(names), "the orders stay as they are, and there are no caches")

    def attach(self, join: MJoin, names: Sequence[str]) -> None:
        """Give a join somebody who changes its orders and its caches."""
        adapter = self.adapter(join, distinct(names))
        join.adapter = adapter
        adapter.attach(join.arrays)

    def adapter(self, join: MJoin, names: Sequence[str]) -> AdaptiveJoin:
        """Who changes the plan of a join; it begins with the orders of now."""
        from eddyline.adapting.adaptive_join import AdaptiveJoin

        arrays, graph, shape = join.arrays, join.graph, _shape(join)
        policies, asked, pace = self._policies(shape, arrays.orders, join.name)
        named = self.caches
        options = dict(DEFAULT_CACHES) if named is None else {}
        if self.memory is not None and _name(named or "global") != "none":
            options["memory"] = self.memory
        caches = caching.make_caching(named or "global", shape, names, join.name, **options) if graph.simple else None
        if caches is not None and named is not None:
            # Five profiling runs an interval, which counts those that leave as well.
            pace = Pace(max(256, min(pace.profiling_run, caches.interval // 10)), pace.quiet_run, 0)
        weight = 1.0 if named is not None else CACHE_ACCESS_COST
        adapter = AdaptiveJoin(
            join.name, names, shape, policies, caches, self.clock, pace, weight, asked, join.context.log
        )
        adapter.run_history.caching = (
            "no caches" if caches is None else f"caches by the policy {_name(named or 'global')}"
        )
        if not graph.simple and _name(named or "global") != "none":
            adapter.run_history.caching = f"no caches: {_not_simple(join, names)}"
        return adapter

    def plant(self, join: MJoin, names: Sequence[str]) -> None:
        """Give a join the tree that the option draws."""
        from eddyline.adapting.fixed_join import FixedJoin

        names, shape = distinct(names), _shape(join)
        tree = read_tree(str(self.tree), names)
        laid = plan(tree, shape)
        kept = laid.kept if join.graph.simple else ()
        # What a subresult does not hold counts as empty only if it was there from the first element on.
        complete = not any(join.arrays.rows())
        caches = [CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key, complete=complete) for c in kept]
        why = f"the tree {render(tree, names)} stays"
        products = [part for part in _subtrees(tree) if len(shape.parts(leaves(part))) > 1]
        if products and len(shape.parts()) == 1:
            why += f", though no condition joins {' with '.join(_named(c, names) for c in products[0])}: a product"
        if not join.graph.simple:
            why += f", subresults are not kept: {_not_simple(join, names)}"
        asked = Decision(
            "join tree", None, render(tree, names), "the option 'tree' draws it", operator=join.name, by=USER
        )
        join.context.log.record(asked)
        adapter = FixedJoin(names, why, caches)
        adapter.attach(join.arrays, laid.orders)
        join.adapter = adapter

    def _policies(self, shape: Shape, orders: Sequence[tuple[int, ...]], operator: str) -> tuple[Any, str, Pace]:
        """One for each pipeline, who they are, and how often elements are profiled."""
        name, given = ordering.parse_policy(self.joins or OURS, "joins")
        if name == STAYS:
            return None, name, Pace()
        if name == OURS:
            given = {**DEFAULT_ORDERS, **given}
        made = []
        for i in range(shape.size):
            filters = LogicalFilters(shape, i)
            first = tuple(filters.targets.index(x) for x in orders[i])
            pipeline = Pipeline(shape.size - 1, initial=first, operator=operator, unit="accesses")
            made.append(ordering.make_policy(name, pipeline, "joins", **given))
        return made, f"{name}{dict(sorted(given.items()))}", Pace() if name == OURS else Pace(longest_quiet_run=0)


def _shape(join: MJoin) -> Shape:
    classes = tuple(frozenset(m.input for m in c) for c in join.graph.classes)
    pairs = frozenset(frozenset((c.left.input, c.right.input)) for c in join.arrays.conditions)
    return Shape(join.graph.size, classes, pairs)


def memory_of(options: Mapping[str, Any]) -> int | None:
    """The budget in bytes that ``memory = '64 MB'`` gives the caches of a query, or a sentence. Under a routing policy
    with a parameter of that name, ``memory`` is the parameter.

    >>> memory_of({"memory": "64 MB"}), memory_of({"memory": 4096}), memory_of({})
    (67108864, 4096, None)
    """
    given = options.get("memory")
    if given is None or options.get("routing") is not None:
        return None
    found = bytes_of(given)
    if found is None:
        raise JobError(f"the option 'memory' is a text such as '64 MB' or a number of bytes, not {given!r}.")
    return found


def _subtrees(tree: Tree) -> list[tuple[Tree, ...]]:
    """The inner nodes of a tree, the lowest first."""
    return [] if isinstance(tree, int) else [*(s for c in tree for s in _subtrees(c)), tree]


def _named(tree: Tree, names: Sequence[str]) -> str:
    return names[tree] if isinstance(tree, int) else f"({render(tree, names)})"


def _name(policy: str) -> str:
    return caching.parse_policy(policy)[0]


def _not_simple(join: MJoin, names: Sequence[str]) -> str:
    for c in join.graph.classes:
        for i, name in enumerate(names):
            if sum(m.input == i for m in c) > 1:
                return f"two columns of {name} must be equal to the same"
    return ""


def named_in(tree: str, names: Sequence[str]) -> bool:
    """Whether a tree is about these inputs: a query may have several joins."""
    return sorted(n.lower() for n in re.findall(r"[^\s(),]+", tree)) == sorted(n.lower() for n in names)


def _mistake(named: Sequence[str], names: Sequence[str], text: str) -> str:
    """What is wrong with a tree, as far as one can say.

    >>> _mistake(["r", "x"], ["R", "S"], "(r, x)"), _mistake(["r", "r", "s"], ["R", "S"], "((r, r), s)")
    (': x is none of them', ': r stands twice')
    >>> _mistake(["r", "s"], ["R", "S"], "((r), s)"), _mistake(["r", "s"], ["R", "S"], "(r s)")
    (': r stands in brackets by itself', ': there is no comma between r and s')
    """
    given, known = [n.lower() for n in named], [n.lower() for n in names]
    strange = [n for n in named if n.lower() not in known]
    twice = [n for n in dict.fromkeys(named) if given.count(n.lower()) > 1]
    missing = [n for n in names if n.lower() not in given]
    if strange:
        return f": {strange[0]} is none of them"
    if twice:
        return f": {twice[0]} stands twice"
    if missing and given:
        return f": {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    opened, closed = text.count("("), text.count(")")
    if opened != closed:
        return f": a bracket is not {'closed' if opened > closed else 'opened'}"
    if alone := re.search(r"\(\s*([^\s(),]+)\s*\)", text):
        return f": {alone[1]} stands in brackets by itself"
    beside = re.search(r"([^\s(),]+)\s+([^\s(),]+)", text)
    return f": there is no comma between {beside[1]} and {beside[2]}" if beside else ""


def read_tree(text: str, names: Sequence[str]) -> Tree:
    """``((R, S), T)`` with the names of the join's inputs.

    >>> read_tree("((R, S), T)", ["R", "S", "T"])
    ((0, 1), 2)
    >>> read_tree("(R)", ["R", "S"])
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the tree '(R)' must name each of R, S once, in brackets such as (R, S): S is missing.
    """
    tokens = re.findall(r"[(),]|[^\s(),]+", text)
    known = {n.lower(): i for i, n in enumerate(names)}
    example = f"(({', '.join(names[:2])}), {', '.join(names[2:])})" if len(names) > 2 else f"({', '.join(names)})"
    wrong = JobError(
        f"the tree {text!r} must name each of {', '.join(names)} once, in brackets such as {example}"
        f"{_mistake([t for t in tokens if t not in '(),'], names, text)}."
    )
    if text.count("(") >= len(names):  # each holds two at least; and however deep, it is one sentence
        raise wrong
    at = 0

    def part() -> Tree:
        nonlocal at
        if at >= len(tokens):
            raise wrong
        token = tokens[at]
        at += 1
        if token != "(":
            if token.lower() not in known:
                raise wrong
            return known[token.lower()]
        inner: list[Tree] = [part()]
        while at < len(tokens) and tokens[at] == ",":
            at += 1
            inner.append(part())
        if at >= len(tokens) or tokens[at] != ")" or len(inner) < 2:
            raise wrong
        at += 1
        return tuple(inner)

    tree = part()
    if at != len(tokens) or sorted(leaves(tree)) != list(range(len(names))):
        raise wrong
    return tree
