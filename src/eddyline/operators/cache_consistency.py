"""Why caches never change an answer, for any join graph, and the check that a plan keeps what the proof assumes.

*Terms.* The conditions of a join are equality classes and other conditions between pairs of inputs. J(G) are the joins
of a set G of inputs: one live row of each, such that all conditions hold that have all their members in G. A cache in
the pipeline of R_i binds the segment X after the inputs B = {i, …} that come before it; Y is its support, G = X ∪ Y. It
is *anchored* if i ∈ Y. σ_u(X) are the joins of X with the codes u on the key K.

*Assumptions*, which ``check_consistency`` verifies for each plan:

(1) Each input has at most one member in a class.
(2) K are all classes with members in B and in X; if anchored also all classes of i with members in G − {i}.
(3) The pipeline of each input of G joins with the rest of G before anything else (the prefix invariant).
(4) If anchored: no other condition than equalities links i with G − {i}.
(5) Used caches of a pipeline do not overlap, and no used cache U of a pipeline l ∈ G (l ≠ i if anchored) has a segment
    that reaches over the place where l has joined with G; one that ends before it and has support stays within G:
    X_U ∪ Y_U ⊆ G.

The graph may have any cycles. A step compares its target with *all* bound inputs that share a class with it: a closing
edge is one more class in the probe. So behind a step are exactly the joins of the bound inputs that have the element.

*Lemma (keys).* Let b ∈ J(B) have the codes u on K. Then the x ∈ J(X) that agree with b in all equalities are σ_u(X). An
equality between B and X belongs to a class with members on both sides, which is in K by (2); by (1) it is one code on
each side, and all members of a class that are bound agree. If several paths link B with X, as the two ends of a segment
of a cycle do, each of them brings its class into K.

*Invariant* between two elements. For each entry (u, v), where v are its references that live, and for an anchored
cache each entry whose anchor a, a row of R_i with the codes u in all classes of i that are in K, lives:

    {x ∈ σ_u(X) : x has a partner y in Y with x ∪ y ∈ J(G)}  ⊆  v  ⊆  σ_u(X);   without support v = σ_u(X).

This implies Definition 5.7.1: what has a partner in all other inputs has one in Y.

*A hit is right.* Let an element r of R_i reach the cache with b ∈ J(B), and let x be part of some join that extends b
and has rows of all inputs of G. By the lemma x ∈ σ_u(X). Let y be the rows of that join in Y. If i ∉ Y they live, so
x ∪ y ∈ J(G) and x ∈ v. If i ∈ Y, r may not be among the rows of R_i (yet), but a is: in y put a in the place of r. The
two agree in all classes of i in G, by (2), and (4) leaves nothing else to hold; so x ∪ y ∈ J(G) again, and x ∈ v.
Nothing wrong comes out, as v ⊆ σ_u(X); conditions that cross into the segment are checked on what comes out.

*Each element keeps the invariant.*

- A deletion makes references die that name the row, on all sides; otherwise it can only take partners away. If it is
  the anchor that goes, the entry no longer counts.
- A miss writes σ_u(X), by the lemma: all of it, because within a segment that is written no loop ends early. The anchor
  is r, which is a row of R_i when its turn is over (no entry is written for an element that leaves). A hit moves the
  anchor to r, which has the same codes.
- An insertion of r into R_l, l ∈ G, adds to the left side the x with some x ∪ y ∈ J(G) that has r. If l = i (anchored),
  a in the place of r shows that x was there before: nothing is to be done. Otherwise by (3) the pipeline of l computes
  the joins of G with r before anything else, and by (5) caches on the way lose none of them: their support lies in G,
  and so a hit in them is right for the joins of G. Each x ∪ y that passes brings x to the entry of its key.
- Stores that caches share hold the same: neither side of the invariant names a pipeline, if i ∉ Y.

*One partner is enough.* CacheUpdate need not bring x once for each partner. Call an input of Y *unread* in the pipeline
of l if no step takes a code from it, it is in no other condition, and no cache binds it. Rows of unread inputs then
decide neither what other steps and caches find nor the key of x: a class that they share with another input of G has a
member that was bound earlier, or the later one would have read them. So the joins that pass are products, for each
choice of the other rows, of what the unread inputs offer, and the first match of each stands for all. Which inputs a
step reads must be taken from all of its codes, never from READY, the deepest level that it reads: the step that closes
a cycle reads two.

S. Babu: Adaptive Query Processing in Data Stream Management Systems, Stanford 2005, sections 5.4 and 5.7.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eddyline.operators.join_plan import CacheSpec, JoinGraph, Member, Step

Pairs = Collection[frozenset[int]]  # of inputs, under a condition that is no equality


def check_consistency(
    used: Sequence[CacheSpec],
    kept: Sequence[CacheSpec],
    orders: Sequence[tuple[int, ...]],
    graph: JoinGraph,
    pairs: Pairs,
) -> None:
    """Refuse a plan for which the proof above does not hold. Caches of ``kept`` are maintained and not looked up.

    >>> cycle = JoinGraph(((),) * 3, tuple((Member(i, 1), Member((i + 1) % 3, 0)) for i in range(3)))
    >>> orders = [(1, 2), (2, 0), (1, 0)]
    >>> check_consistency([CacheSpec(0, 0, 1, (1, 2), (0, 2))], [], orders, cycle, [])
    >>> check_consistency([CacheSpec(0, 0, 1, (1, 2), (0,))], [], orders, cycle, [])
    Traceback (most recent call last):
    ...
    ValueError: the cache of (1, 2) in pipeline 0 must have the classes (0, 2) as its key, not (0,)
    """
    if not (used or kept):
        return
    if not graph.simple:
        raise ValueError("caches need a join graph in which no input has two members of one class")
    classes = graph.classes
    for cache in (*used, *kept):
        _check_alone(cache, orders, classes, pairs)
    for n, cache in enumerate(used):
        for other in used[:n]:
            if cache.pipeline == other.pipeline and cache.first <= other.last and other.first <= cache.last:
                raise ValueError(f"{_name(cache)} overlaps {_name(other)}")
        for maintained in (*used, *kept):
            if _disturbs(cache, maintained):
                raise ValueError(f"{_name(cache)} keeps updates from {_name(maintained)}")


def unread(order: Sequence[int], steps: Sequence[Step], support: Collection[int], pairs: Pairs) -> list[int]:
    """The places in the order of a pipeline whose input is support that nothing reads: its first match is enough.

    >>> cycle = JoinGraph(((),) * 4, tuple((Member(i, 1), Member((i + 1) % 4, 0)) for i in range(4)))
    >>> order = (1, 3, 2)
    >>> unread(order, cycle.pipeline(0, order), {1, 2, 3}, [])  # the step to 2 closes the cycle: it reads 1 and 3
    [2]
    """
    read = {x.input for step in steps for x in step.probes}.union(*pairs)
    return [place for place, x in enumerate(order) if x in support and x not in read]


def _check_alone(
    cache: CacheSpec, orders: Sequence[tuple[int, ...]], classes: Sequence[Collection[Member]], pairs: Pairs
) -> None:
    own, group = cache.pipeline, {*cache.segment, *cache.support}
    before = {own, *orders[own][: cache.first]}
    anchored = own in cache.support
    if set(orders[own][cache.first : cache.last + 1]) != set(cache.segment):
        raise ValueError(f"{_name(cache)} is not what steps {cache.first} to {cache.last} of {orders[own]} bind")
    key = []
    for number, members in enumerate(classes):
        inputs = {x.input for x in members}
        links = inputs & before and inputs.intersection(cache.segment)
        if links or (anchored and own in inputs and inputs & (group - {own})):
            key.append(number)
    if tuple(key) != cache.key:
        raise ValueError(f"{_name(cache)} must have the classes {tuple(key)} as its key, not {cache.key}")
    for i in group:
        if set(orders[i][: len(group) - 1]) != group - {i}:
            raise ValueError(f"{_name(cache)} does not satisfy the prefix invariant in the pipeline of {i}")
    if anchored and any(own in pair and pair & (group - {own}) for pair in pairs):
        raise ValueError(f"{_name(cache)} is supported by its own input, which has a condition that is no equality")


def _disturbs(used: CacheSpec, maintained: CacheSpec) -> bool:
    """Whether a hit in ``used`` skips the place where its pipeline maintains the other, or withholds joins from it."""
    group = {*maintained.segment, *maintained.support}
    if used.pipeline not in group or used.pipeline == maintained.pipeline:
        return False
    after = len(group) - 1
    if used.first < after <= used.last:
        return True
    return bool(used.support) and used.last < after and not group.issuperset((*used.segment, *used.support))


def _name(cache: CacheSpec) -> str:
    return f"the cache of {cache.segment} in pipeline {cache.pipeline}"
