"""How constraints are used, by name: ``WITH (constraints = 'exact')``, ``'lossy(monitors = paper)'``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.adaptive.constraints.forms import ARRIVALS, CHOSEN, TICKS, Forms
from eddyline.streamon.parameters import NamedChoice, Parameter
from eddyline.streamon.strategies import find, strategy

KIND = "constraints"
RIDS, CA, OAP, OAC = "rids", "ca", "oap", "oac"
EACH = (RIDS, CA, OAP, OAC)
ALL = "all"
USES = (ALL, *("+".join(c) for n in range(1, len(EACH)) for c in combinations(EACH, n)))

MONITORS = NamedChoice(
    "monitors", ("careful", "paper"), "careful ones look longer before they lower k, and lose fewer results"
)
USED = NamedChoice("uses", USES, "constraints that may be used: fewer cost less to watch and keep more rows")
DISTANCES = NamedChoice(
    "distances", (CHOSEN, ARRIVALS, TICKS), "what k counts: the form that keeps fewer rows, or always one of the two"
)
COLLECT = Parameter("collect", 1, 10**9, "elements between two garbage collections: fewer keep less", whole=True)
CHOICE = NamedChoice(
    "choice", ("predicted", "all"), "predicted: rows that wait longer by a constraint than it saves are left alone"
)
PATIENCE = Parameter(
    "patience", 1, 10**9, "arrivals without a saving after which the plain join takes over: fewer cost less", whole=True
)
W = Parameter("W", 1, 10**9, "arrivals that are evaluated before k is lowered: more follow a change later", whole=True)
P = Parameter("p", 0, 1, "share of rows that are kept to see larger distances: more notice increases sooner")
C = Parameter("c", 0, 100, "k_e = c · k_u: more keeps more rows and notices increases sooner")

# The thesis' parameters c, p and W (6.6.4, 6.7.4, 6.8.4); and those of careful monitors.
PAPER = {RIDS: (1.0, 0.01, 500), CA: (1.2, 0.01, 1000), OAP: (1.2, 0.0, 1000)}
CAREFUL = {RIDS: (1.2, 0.01, 500), CA: (1.2, 0.01, 1000), OAP: (1.2, 0.0, 1000)}


@dataclass(frozen=True, slots=True)
class ConstraintOptions:
    """How the constraints of a join are watched and used; what is None is as in ``monitors``."""

    monitors: str = "careful"
    uses: str = ALL
    distances: str = CHOSEN
    collect: int = 1_000
    choice: str = "predicted"
    patience: int | None = None
    W: int | None = None
    p: float | None = None
    c: float | None = None

    def may_use(self, constraint: str) -> bool:
        return self.uses == ALL or constraint in self.uses.split("+")

    @property
    def predicts(self) -> bool:
        """Whether there is something to choose: a constraint that drops No rows, and one that ends their stay."""
        ends, drops = (any(map(self.may_use, some)) for some in ((CA, OAP), (RIDS, OAC)))
        return self.choice == "predicted" and ends and drops

    def adherence(self, constraint: str) -> Adherence:
        """The monitor of a constraint."""
        paper = self.monitors == "paper"
        c, p, look = (PAPER if paper else CAREFUL)[constraint]
        return Adherence(self.c or c, self.p or p, self.W or look, careful=not paper)

    def forms(self, constraint: str) -> Forms:
        """The monitors of a constraint, in arrivals and in ticks."""
        return Forms(self.adherence(constraint), self.adherence(constraint), self.distances)

    @property
    def thins(self) -> bool:
        """Whether the share p may be made smaller where windows are large: not where it was named."""
        return self.p is None and self.monitors != "paper"


_PARAMETERS = (MONITORS, USED, DISTANCES, COLLECT, CHOICE, PATIENCE, W, P, C)


@strategy(KIND, name="exact", parameters=_PARAMETERS, like=ConstraintOptions)
def _exact(options: ConstraintOptions) -> str:
    """What constraints make useless is spilled, and brought back if it is needed after all: no answer changes."""
    return "exact"


@strategy(KIND, name="lossy", parameters=_PARAMETERS, like=ConstraintOptions)
def _lossy(options: ConstraintOptions) -> str:
    """What constraints make useless is dropped: results can be missing while a constraint ceases to hold."""
    return "lossy"


@strategy(KIND, name="auto", parameters=_PARAMETERS, like=ConstraintOptions)
def _auto(options: ConstraintOptions) -> str:
    """As 'off', until state nears the memory limit or less of it is faster, and samples show that constraints hold."""
    return "auto"


@strategy(KIND, name="off", parameters=(), like=ConstraintOptions)
def _off(options: ConstraintOptions) -> str:
    """Joins keep all that their windows hold."""
    return "off"


def parse_constraints(text: str) -> tuple[str, ConstraintOptions]:
    """The mode that a text names, and its options.

    >>> mode, options = parse_constraints("lossy(monitors = paper, uses = rids+ca)")
    >>> mode, options.may_use("ca"), options.may_use("oac"), options.adherence("rids").W
    ('lossy', True, False, 500)
    """
    found, written = find(KIND, text)
    return found.name, ConstraintOptions(**found.checked(written))
