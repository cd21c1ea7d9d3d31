"""Parameters of A-Caching: their ranges, and what each trades. Defaults stand in the constructor."""

from __future__ import annotations

from eddyline.streamon.parameters import Parameter

INTERVAL = Parameter(
    "interval",
    1,
    10**12,
    "tuples between two re-optimisations: fewer notice sooner that a cache would help, and profile more",
    whole=True,
)
INTERVAL_TIME = Parameter(
    "interval_time",
    1,
    2**62,
    "ticks after which a re-optimisation is due whatever the number of tuples",
    whole=True,
)
W = Parameter(
    "W",
    1,
    100_000,
    "observations that an estimate averages: more are steadier, need longer to collect and forget more slowly",
    whole=True,
)
M = Parameter(
    "m",
    0,
    20,
    "most candidates with globally-consistent caches among them: more find better plans in up to 2^m steps",
    whole=True,
)
THRESHOLD = Parameter(
    "threshold",
    0,
    100,
    "relative change of a benefit or cost that calls for a new selection: larger selects less often",
)
W_D = Parameter(
    "W_d",
    2,
    10_000_000,
    "probes among which distinct keys are counted: more see keys that recur later, and take longer",
    whole=True,
)
ALPHA_BITS = Parameter(
    "alpha_bits",
    1,
    64,
    "bits per probe in the Bloom filter that counts distinct keys: more count better and take memory",
    whole=True,
)
MEMORY = Parameter(
    "memory",
    0,
    2**50,
    "bytes for all caches: less keeps fewer entries of the caches with the least priority",
    whole=True,
)
PAGE = Parameter(
    "page",
    64,
    2**30,
    "bytes of a page of cache memory: smaller follows priorities more closely, larger moves less often",
    whole=True,
)

A_CACHING = (INTERVAL, INTERVAL_TIME, W, M, THRESHOLD, W_D, ALPHA_BITS, MEMORY, PAGE)
