"""Parameters of routing policies: their ranges, and what each trades. Defaults stand in the constructors.

``P``, ``R`` and the ``d`` of a setting are those of Table 2. The paper gives no number for γ nor for the length of a
trial; why ours are what they are stands with ``ContentLearns``.
"""

from __future__ import annotations

from eddyline.streamon.parameters import Parameter

P = Parameter(
    "P", 0, 1, "tuple sampling probability while profiling: larger learns sooner and sends more tuples astray"
)
R = Parameter(
    "R",
    8,
    1_000_000,
    "sample size for a gain ratio: larger sees weaker correlations and adapts more slowly",
    whole=True,
)
GAMMA = Parameter(
    "gamma", 0, 1, "gain ratio above which an attribute is a classifier: smaller uses weaker ones, and wrong ones"
)
ALPHA = Parameter(
    "alpha", 0, 0.999999, "share of the past kept in a selectivity with each tuple: larger is steadier and slower"
)
TRIAL = Parameter(
    "trial", 2, 1_000_000, "tuples on which a classifier is accepted or rejected: more judge better, later", whole=True
)
GREED = Parameter("greed", 0, 1000, "exponent of the lottery: larger comes closer to the minimum and explores less")
PRUNE = Parameter(
    "prune", 1, 1e9, "how many times better or worse an operator must rank than all others to be left out of profiling"
)
COST_AWARE = Parameter(
    "cost_aware",
    0,
    1,
    "1 ranks operators by what they drop per second, 0 ignores their cost as the paper does",
    whole=True,
)
SETS = Parameter(
    "sets", 1, 3, "most attributes in a classifier: larger finds joint correlations and keeps more matrices", whole=True
)
