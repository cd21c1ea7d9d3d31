"""Network monitoring, the running example of the thesis.

``link`` gives the three streams C, B and O of section 1.3: a packet enters at the customer link C, may pass the
backbone link B within a bounded latency and may leave through the outgoing link O, likewise. The three streams of one
seed are views of one flow, so they join on ``pid``. ``intrusion`` gives the packets of section 4.1.1 with destination
and payload; the payload may contain either half of an attack's signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import JobError
from eddyline.datasets.generate import (
    START,
    Bools,
    Float64s,
    Generated,
    Int64s,
    Span,
    draw,
    random,
    timestamps,
    zipf_table,
)

LINKS: Final = ("C", "B", "O")
LINK_SCHEMA: Final = pa.schema([("ts", pa.timestamp("us")), ("pid", pa.int64()), ("size", pa.int64())])
INTRUSION_SCHEMA: Final = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("srcAddr", pa.string()),
        ("destAddr", pa.string()),
        ("size", pa.int64()),
        ("data", pa.string()),
    ]
)
# The thesis prints its two byte sequences like this; the payloads carry them as printed, so its query runs as printed.
SIGNATURE_A: Final = "0xa...8"
SIGNATURE_B: Final = "0x7...b"


def link(
    link: str = "C",
    rate: float = 1000.0,
    seconds: float | None = None,
    events: int | None = None,
    seed: int = 1,
    through_b: float = 0.6,
    through_o: float = 0.5,
    latency: float = 0.5,
    background: float = 1.0,
    drift: float = 1.0,
    start: int = START,
) -> Generated:
    """One link of section 1.3: columns ts, pid, size.

    Parameters
    ----------
    rate
        Packets a second that enter at C; ``seconds`` or ``events`` (entering packets) end the stream.
    through_b, through_o
        The part of C's packets that reaches B, and of B's that reaches O: the join's selectivity.
    latency
        The longest time in seconds from C to B and from B to O: how close joining packets are.
    background
        Other traffic on B and O, as a multiple of the rate: rows that join with nothing.
    drift
        Where in the stream (0 to 1) routes change: from then on few packets of B reach O (1: never).

    >>> c, b, o = (link(name, rate=100, seconds=10).table() for name in "CBO")
    >>> len(c), b.schema.names
    (1000, ['ts', 'pid', 'size'])
    >>> shared = set(c["pid"].to_pylist()) & set(b["pid"].to_pylist()) & set(o["pid"].to_pylist())
    >>> 200 < len(shared) < 400
    True
    """
    if link not in LINKS:
        raise JobError(f"there is no link {link!r}: C, B and O exist.")
    span = Span.of(rate, seconds, events)

    def flow(chunk: int, index: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Time, pid and size of this chunk's packets that are seen on the link, in order of entry."""
        own, n = random(seed, "packets", chunk), len(index)
        jitter, size, to_b, to_o, lag_b, lag_o = (own.random(n) for _ in range(6))
        time = span.times(index, jitter)
        sizes = 40 + np.floor(size**3 * 1461).astype(np.int64)  # many small packets, few full ones
        if link == "C":
            return time, index, sizes
        reaches = to_b < through_b
        late = np.floor(lag_b * latency * 1e6).astype(np.int64)
        if link == "O":
            changed = np.where(span.progress(index) >= drift, 0.05, through_o)
            reaches &= to_o < changed
            late = late + np.floor(lag_o * latency * 1e6).astype(np.int64)
        others = random(seed, "background" + link, chunk)
        extra = int(others.poisson(background * n))
        when = span.times(index[:1], np.floor(others.random(extra) * n)) + others.integers(0, 1000, extra)
        sizes_of_others = 40 + np.floor(others.random(extra) ** 3 * 1461).astype(np.int64)
        # Other packets have negative numbers: no two packets of one link share a number.
        base = (int(index[0]) + 1) * 8 if n else 0
        pids = -(np.arange(extra, dtype=np.int64) + base * max(1, round(background))) - 1
        return (
            np.concatenate([(time + late)[reaches], when]),
            np.concatenate([index[reaches], pids * len(LINKS) - LINKS.index(link)]),
            np.concatenate([sizes[reaches], sizes_of_others]),
        )

    def chunks() -> Iterator[pa.RecordBatch]:
        waiting = tuple(np.empty(0, np.int64) for _ in range(3))
        for chunk, index in span.chunks():
            parts = flow(chunk, index)
            held = [np.concatenate([w, p]) for w, p in zip(waiting, parts, strict=True)]
            order = np.argsort(held[0], kind="stable")
            # Nothing that enters later can be seen before the next chunk's first slot.
            ready = int(np.searchsorted(held[0][order], span.times(index[-1:] + 1, np.zeros(1))[0]))
            yield _link_batch([h[order[:ready]] for h in held], start)
            waiting = tuple(h[order[ready:]] for h in held)
        if len(waiting[0]):
            yield _link_batch(list(waiting), start)

    return Generated(LINK_SCHEMA, chunks, span.finite)


def _link_batch(columns: list[Int64s], start: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [timestamps(columns[0], start), pa.array(columns[1]), pa.array(columns[2])], schema=LINK_SCHEMA
    )


def intrusion(
    rate: float = 1000.0,
    seconds: float | None = None,
    events: int | None = None,
    seed: int = 1,
    hosts: int = 200,
    skew: float = 1.0,
    payload: int = 64,
    with_a: float = 0.1,
    with_b: float = 0.1,
    correlation: float = 0.0,
    attack: float = 0.7,
    drift: float = 0.5,
    start: int = START,
) -> Generated:
    """The packets of section 4.1.1: columns ts, srcAddr, destAddr, size, data.

    Parameters
    ----------
    hosts, skew
        Destination hosts ``10.0.x.y`` and how unevenly packets go to them (Zipf's exponent; 0 is even).
    payload
        Characters of payload: longer ones make ``match`` dearer.
    with_a, with_b
        The part of ordinary packets that contains each half of the signature.
    correlation
        0: the halves are independent; 1: a packet with the first half always has the second.
    drift, attack
        Where in the stream (0 to 1) the attack starts, and the part of packets that belong to it from then on: both
        halves of the signature, to any host. Then the two ``match`` filters stop dropping and the order should change.

    >>> t = intrusion(rate=1000, seconds=2, drift=0.5).table()
    >>> hits = pc.match_substring(t["data"], SIGNATURE_A)
    >>> quiet, attacked = (pc.mean(pc.cast(h, "int64")).as_py() for h in (hits.slice(0, 1000), hits.slice(1000)))
    >>> quiet < 0.2 < 0.6 < attacked
    True
    """
    span = Span.of(rate, seconds, events)
    table = zipf_table(hosts, skew)
    names = pa.array(_addresses(hosts))
    fillers = _fillers(seed, max(1, payload // 3))

    def chunks() -> Iterator[pa.RecordBatch]:
        for chunk, index in span.chunks():
            own, n = random(seed, "intrusion", chunk), len(index)
            time = span.times(index, own.random(n))
            attacked = (span.progress(index) >= drift) & (own.random(n) < attack)
            a = own.random(n) < with_a
            b = _given(a, with_b, correlation, own.random(n))
            source, to = own.integers(0, 250, n), draw(table, own.random(n))
            pieces = [fillers.take(pa.array(own.integers(0, len(fillers), n))) for _ in range(3)]
            data = pc.binary_join_element_wise(
                pieces[0],
                _optional(SIGNATURE_A, a | attacked),
                pieces[1],
                _optional(SIGNATURE_B, b | attacked),
                pieces[2],
                "",
            )
            sizes = pa.array(40 + np.floor(own.random(n) ** 3 * 1461).astype(np.int64))
            sources = pc.binary_join_element_wise("172.16.0.", pa.array(source).cast(pa.string()), "")
            columns = [timestamps(time, start), sources, names.take(pa.array(to)), sizes, data]
            yield pa.RecordBatch.from_arrays(columns, schema=INTRUSION_SCHEMA)

    return Generated(INTRUSION_SCHEMA, chunks, span.finite)


def targets(hosts: int = 200, part: float = 0.3, seed: int = 1) -> Generated:
    """The table T of section 4.1.1, column addr: hosts that run database servers.

    >>> targets(hosts=10, part=0.3).table().num_rows
    3
    """
    schema = pa.schema([("addr", pa.string())])
    chosen = np.sort(random(seed, "targets", 0).permutation(hosts)[: round(part * hosts)])
    batch = pa.RecordBatch.from_arrays([pa.array(_addresses(hosts)).take(pa.array(chosen))], schema=schema)
    return Generated(schema, lambda: iter([batch]))


def _given(a: Bools, p_b: float, correlation: float, uniform: Float64s) -> Bools:
    """The second half of the signature: with probability ``p_b``, raised by ``correlation`` where the first is."""
    return np.where(a, uniform < correlation + (1 - correlation) * p_b, uniform < p_b)


def _addresses(hosts: int) -> list[str]:
    return [f"10.0.{h // 250}.{h % 250 + 1}" for h in range(hosts)]


def _fillers(seed: int, length: int) -> pa.Array:
    letters = np.frombuffer(b"GHIJKLMNOPQRSTUVWXYZghijklmnopqr", np.uint8)  # none occurs in a signature
    drawn = letters[random(seed, "fillers", 0).integers(0, len(letters), (1024, length))]
    return pa.array([bytes(row).decode() for row in drawn])


def _optional(text: str, where: Bools) -> pa.Array:
    return pc.if_else(pa.array(where), text, "")
