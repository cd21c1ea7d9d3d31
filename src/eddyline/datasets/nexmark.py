"""Nexmark's online auctions: persons, auctions and bids, 1 : 3 : 46 of every fifty events, in one order of time.

The shape is that of the benchmark's generators: half of the bids go to a few hot auctions, three of four auctions are
of hot sellers and three of four bids of hot bidders, all others to one of the latest hundred auctions or thousand
persons. An auction is open for about as long as it takes to open two hundred others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError, did_you_mean
from eddyline.datasets.generate import START, Generated, Int64s, Span, random, timestamps

FIRST_ID: Final = 1000  # of persons and auctions
OPEN_AUCTIONS: Final = 100  # the latest auctions, which get bids
ACTIVE_PERSONS: Final = 1000  # the latest persons, who bid and sell
HOT_STEP: Final = 100  # the hot auction, seller or bidder is the latest whose number is a multiple of this
EVENTS_PER_CYCLE: Final = 50  # the first one is a person, the next three are auctions, all others bids
PERSONS_PER_CYCLE: Final = 1
AUCTIONS_PER_CYCLE: Final = 3
CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
SIDE_INPUT_KEYS: Final = 10_000

_TYPES: Final = {"dateTime": pa.timestamp("us"), "expires": pa.timestamp("us")} | dict.fromkeys(
    ("id", "initialBid", "reserve", "seller", "category", "auction", "bidder", "price", "key"), pa.int64()
)  # all others are texts
_COLUMNS: Final = {
    "person": "id name emailAddress city state dateTime extra",
    "auction": "id itemName initialBid reserve dateTime expires seller category extra",
    "bid": "auction bidder price channel url dateTime extra",
    "side_input": "key value",
}
SCHEMAS: Final = {s: pa.schema([(n, _TYPES.get(n, pa.string())) for n in c.split()]) for s, c in _COLUMNS.items()}
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]


def nexmark(
    stream: str,
    events: int | None = None,
    rate: float = 10_000.0,
    seconds: float | None = None,
    seed: int = 1,
    start: int = START,
) -> Generated:
    """
    Parameters
    ----------
    stream
        ``person``, ``auction``, ``bid``, or ``side_input``: 10,000 keys with values, a constant relation.
    events, seconds
        How many events, or for how long; of all three streams together, so that streams of one length belong together.

    >>> [nexmark(s, events=1000).table().num_rows for s in ("person", "auction", "bid")]
    [20, 60, 920]
    """
    if stream == "side_input":
        return Generated(SCHEMAS[stream], _side_input)
    makers = {"person": _persons, "auction": _auctions, "bid": _bids}
    if stream not in makers:
        near = did_you_mean(stream, SCHEMAS) or f" There are: {', '.join(SCHEMAS)}."
        raise JobError(f"Nexmark has no stream {stream!r}.{near}")
    span = Span.of(rate, seconds, events)
    make = makers[stream]

    def chunks() -> Iterator[pa.RecordBatch]:
        for chunk, index in span.chunks():
            time = span.times(index, random(seed, "nexmark", chunk).random(len(index)))
            mine = _KINDS[stream](index % EVENTS_PER_CYCLE)
            own = random(seed, f"nexmark {stream}", chunk)
            columns = make(own, index[mine], time[mine] + start, rate)
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[stream])

    return Generated(SCHEMAS[stream], chunks, span.finite)


_KINDS: Final[dict[str, Callable[[Int64s], np.ndarray]]] = {
    "person": lambda kind: kind < PERSONS_PER_CYCLE,
    "auction": lambda kind: (kind >= PERSONS_PER_CYCLE) & (kind < PERSONS_PER_CYCLE + AUCTIONS_PER_CYCLE),
    "bid": lambda kind: kind >= PERSONS_PER_CYCLE + AUCTIONS_PER_CYCLE,
}


def _last_person(index: Int64s) -> Int64s:
    """The number of the latest person at an event, from 0."""
    return index // EVENTS_PER_CYCLE


def _last_auction(index: Int64s) -> Int64s:
    """The number of the latest auction at an event, from 0; before the first, the first."""
    cycle, place = np.divmod(index, EVENTS_PER_CYCLE)
    opened: Int64s = cycle * AUCTIONS_PER_CYCLE + np.clip(place, 0, AUCTIONS_PER_CYCLE) - 1
    return np.maximum(opened, 0)


def _persons(rng: np.random.Generator, index: Int64s, time: Int64s, rate: float) -> list[pa.Array]:
    n = len(index)
    names = np.char.add(np.char.add(rng.choice(_FIRST, n), " "), rng.choice(_LAST, n))
    mails = pa.array(np.char.add(np.char.replace(np.char.lower(names), " ", "@"), ".com"), pa.string())
    city, state = pa.array(rng.choice(_CITIES, n), pa.string()), pa.array(rng.choice(_STATES, n), pa.string())
    ids = pa.array(_last_person(index) + FIRST_ID)
    return [ids, pa.array(names, pa.string()), mails, city, state, timestamps(time, 0), _letters(rng, n, 20, 60)]


def _auctions(rng: np.random.Generator, index: Int64s, time: Int64s, rate: float) -> list[pa.Array]:
    n = len(index)
    last = _last_person(index)
    hot = rng.random(n) < 0.75
    seller = np.where(hot, last // HOT_STEP * HOT_STEP, last - _back(rng, last, ACTIVE_PERSONS)) + FIRST_ID
    horizon = OPEN_AUCTIONS * EVENTS_PER_CYCLE / AUCTIONS_PER_CYCLE / rate * 1e6  # µs in which so many auctions open
    expires = time + 1 + (rng.random(n) * 2 * horizon).astype(np.int64)
    first = _price(rng, n)
    ids, reserve = pa.array(_last_auction(index) + FIRST_ID), pa.array(first + _price(rng, n))
    columns = [ids, _letters(rng, n, 5, 20), pa.array(first), reserve, timestamps(time, 0), timestamps(expires, 0)]
    return [*columns, pa.array(seller), pa.array(rng.integers(10, 15, n)), _letters(rng, n, 20, 60)]


def _bids(rng: np.random.Generator, index: Int64s, time: Int64s, rate: float) -> list[pa.Array]:
    n = len(index)
    last = _last_auction(index)
    hot = rng.random(n) < 0.5
    auction = np.where(hot, last // HOT_STEP * HOT_STEP, last - _back(rng, last, OPEN_AUCTIONS)) + FIRST_ID
    person = _last_person(index)
    often = rng.random(n) < 0.75
    bidder = np.where(often, person // HOT_STEP * HOT_STEP + 1, person - _back(rng, person, ACTIVE_PERSONS)) + FIRST_ID
    known = rng.random(n) < 0.5
    number = rng.integers(0, 10_000, n)
    own = np.char.add("channel-", number.astype(str))
    channel = pa.array(np.where(known, np.array(CHANNELS)[number % len(CHANNELS)], own), pa.string())
    path = [np.array(_letters(rng, n, 5, 5).to_pylist(), dtype=str) for _ in range(3)]
    url = np.char.add("https://www.nexmark.com/", path[0])
    for part in path[1:]:
        url = np.char.add(np.char.add(url, "/"), part)
    url = np.char.add(url, "/item.htm?query=1")
    url = np.where(known, url, np.char.add(np.char.add(url, "&channel_id="), (number * 97).astype(str)))
    columns = [pa.array(auction), pa.array(bidder), pa.array(_price(rng, n)), channel, pa.array(url, pa.string())]
    return [*columns, timestamps(time, 0), _letters(rng, n, 10, 40)]


def _back(rng: np.random.Generator, last: Int64s, most: int) -> Int64s:
    """How far behind the latest: one of the last ``most``, or of those that there are."""
    return (rng.random(len(last)) * np.minimum(last + 1, most)).astype(np.int64)


def _price(rng: np.random.Generator, n: int) -> Int64s:
    """Prices in cents, from 1 to a million dollars, small ones as often as large ones."""
    return np.round(10.0 ** (rng.random(n) * 6) * 100).astype(np.int64)


def _letters(rng: np.random.Generator, n: int, least: int, most: int) -> pa.Array:
    """Texts of random small letters."""
    lengths = rng.integers(least, most + 1, n)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    letters = rng.integers(ord("a"), ord("z") + 1, offsets[-1], dtype=np.uint8)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(letters))


def _side_input() -> Iterator[pa.RecordBatch]:
    keys = np.arange(SIDE_INPUT_KEYS)
    values = pa.array(np.char.add("value ", keys.astype(str)), pa.string())
    yield pa.RecordBatch.from_arrays([pa.array(keys), values], schema=SCHEMAS["side_input"])
