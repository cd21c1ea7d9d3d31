"""One state module for several joins: each join reads and writes it through a view.

Joins over the same elements of a stream (of one query or of several) keep the elements' codes and the indexes over them
once. A module has the join attributes of all its views; each view knows which of them are its own, what its window is,
how far it has come and which rows it still needs.

*Why a view sees what a module of its own would show.* Row numbers are those of the stream, so all views mean the same
row by a number. A search is for rows that entered no later than its own instant: rows that another view has brought in
advance entered later. It is for rows that are still in the window of *this* view: when a row leaves a window follows
from the times of entering alone, for ``[RANGE w]`` it is time + w + 1, for ``[ROWS n]`` the time at which the n-th row
after it enters. Rows that match nothing in this view (a NULL among its own keys, a filter above its window) are left
out of what is found. The module drops a row when no view needs it.

A window that changes in steps shares with no other: when a row leaves it does not follow from when it entered.

Views come together before the first row. A join of a query that was registered *later* begins with a module of its
own. It moves to that of an older join when its stub has moved to the older store: from then on it is known that its row
r is row r + ``offset`` of the module. The module must have its attributes (they were not computed for older rows) and
all rows that it still needs; rows that only the view has brought so far are brought with it. Rows before its own first
are not searched, so it sees nothing from before its registration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eddyline.core.aligned import Aligned, plain
from eddyline.core.delta import Bools, Int64s
from eddyline.core.time import NEVER
from eddyline.core.window import Range, Rows, Unbounded, WindowSpec
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr, UserCall, walk
from eddyline.kernels.routed_step import take_values
from eddyline.synopses.attributes import Attribute, renamed
from eddyline.synopses.index_maps import IndexSpec
from eddyline.synopses.row_flags import RowFlags
from eddyline.synopses.state_module import Search, StateModule, to_plain
from eddyline.synopses.store import Stub

LEAST = -(1 << 63)  # no time is earlier
LEAST_SAVED = 1_024  # rows that a snapshot keeps together at least: small partitions would be many small pieces


def _may_be_shared(a: Attribute) -> bool:
    """Whether other joins may compute it: it cannot fail for them, and no function is called twice for a row."""
    return not compile_expr(a.expr).can_fail and not any(isinstance(x, UserCall) for x in walk(a.expr))


class SharedModule:
    """The views of one module. Its attributes are those of all views, fixed when the first row comes."""

    def __init__(self, partition_rows: int) -> None:
        self.partition_rows = partition_rows
        self.views: list[ModuleView] = []
        self.rows: StateModule | None = None
        self.several = False  # whether several views were there when the attributes were fixed
        self._attributes: tuple[Attribute, ...] = ()
        self.known: dict[Attribute, int] = {}  # by attribute the first row that has its codes; 0 where none is named

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        if self.rows is not None:
            return self._attributes
        return tuple(dict.fromkeys(a for v in self.views for a in v.attributes))

    def fix(self) -> StateModule:
        """The module; from now on its attributes stay."""
        if self.rows is None:
            attributes = self.attributes
            leader = self.views[0]
            ranged = frozenset(attributes.index(v.attributes[j]) for v in self.views for j in v.ranged)
            tail = max((v.window.count for v in self.views if isinstance(v.window, Rows)), default=0)
            self.rows = StateModule(
                len(attributes), self.partition_rows, leader.initial(len(attributes)), ranged,
                keeps_leaves=leader.stored, tail=tail,
            )  # fmt: skip
            self._attributes, self.several = attributes, len(self.views) > 1
        return self.rows

    def remove(self, view: ModuleView) -> None:
        self.views = [v for v in self.views if v is not view]
        self.drop()

    def drop(self) -> None:
        """No view needs the rows before the first that one of them needs."""
        if self.rows is not None and self.views:  # else no view has the rows
            self.rows.drop(min(v.first + v.offset for v in self.views))

    def serves(self, view: ModuleView, first: int) -> bool:
        """Whether a join that begins later could search here from row number ``first`` on: by the attributes that there
        are, by ranges where they are meant for ranges. After a restart the older rows have the codes of those views
        only that needed them."""
        if self.rows is None or not set(view.attributes) <= set(self._attributes):
            return False
        if any(first < self.known.get(a, 0) for a in view.attributes):
            return False
        return all(self.rows.ranged[self._attributes.index(view.attributes[j])] for j in view.ranged)

    def open(self, view: ModuleView, first: int) -> None:
        """Take in a view that needs the rows from number ``first`` on. Which rows match nothing is no longer said by
        the module, but by each view."""
        module = self.rows
        assert module is not None
        for v in self.views:
            v.remember_invalid()
        self.several = True
        module.open(first, view.window.count if isinstance(view.window, Rows) else 0)
        self.views.append(view)


class ModuleView:
    """A join input's view: ``attributes`` are its keys, ``ranged`` those that are searched by ranges, ``initial`` gives
    the first indexes for a number of attributes. ``owner`` decides about the indexes, if this view leads."""

    def __init__(
        self,
        shared: SharedModule,
        stub: Stub,
        attributes: Sequence[Attribute],
        ranged: frozenset[int],
        window: WindowSpec,
        initial: Callable[[int], IndexSpec],
    ) -> None:
        self.shared, self.stub = shared, stub
        self.attributes, self.ranged, self.initial = tuple(attributes), ranged, initial
        self.window = window
        # What the times by which a search finds rows that are still there fall short of those at which they leave.
        self.remains = window.width + 1 if isinstance(window, Range) else NEVER if isinstance(window, Unbounded) else 0
        self._rows_after = window.count if isinstance(window, Rows) else None  # a row leaves when the last enters
        self.owner: Any = None
        self.shared_as: Hashable = None  # views that agree in this, and in their elements, have one module
        self.first = self.end = 0  # the rows that are alive in this view, by number
        self.offset = 0  # what numbers of rows are larger by in the module
        self.loaded = False
        self._invalid = RowFlags()  # rows that match nothing, where the module cannot know them
        self._columns: tuple[int, ...] | None = None
        self._times = np.empty(0, np.int64)  # of rows that move to another module
        shared.views.append(self)

    @property
    def stored(self) -> bool:
        """Whether times of leaving are kept because they do not follow from times of entering."""
        return not isinstance(self.window, Range | Rows | Unbounded)

    @property
    def module(self) -> StateModule:
        rows = self.shared.rows  # without a call: it is asked for in each step of a batch
        return rows if rows is not None else self.shared.fix()

    @property
    def leads(self) -> bool:
        """Whether it is this view's join that decides about the indexes."""
        return self.shared.views[0] is self

    @property
    def columns(self) -> tuple[int, ...]:
        """For each key the attribute of the module that it is."""
        if self._columns is None or self.shared.rows is None:
            self._columns = tuple(map(self.shared.attributes.index, self.attributes))
        return self._columns

    @property
    def module_attributes(self) -> tuple[Attribute, ...]:
        return self.shared.attributes

    def key_exprs(self) -> list[Expr]:
        """All attributes of the module, over the columns of this view's input."""
        return [renamed(a.expr, lambda name: self.stub.prefix + name) for a in self.shared.attributes]

    def __len__(self) -> int:
        return self.end - self.first

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, codes: Int64s, time: Int64s, leave: Int64s, valid: Bools) -> tuple[Int64s, int]:
        """The next rows: their numbers, and how many of them no other view has brought before."""
        module, n = self.module, len(time)
        rows = np.arange(self.end, self.end + n)
        there = min(n, max(0, module.end - self.end - self.offset))
        if there < n:
            new = slice(there, n)
            known = None if self.shared.several else valid[new]
            module.insert(codes[new], time[new], leave[new] if self.stored else None, known)
        if self.shared.several:
            self._invalid.append(~valid)
        self.end += n
        return rows, n - there

    def stay(self, rows: Int64s) -> tuple[Int64s, Int64s, Bools]:
        """When rows enter and leave, and which are ever there: not those that match nothing or leave as they enter."""
        module = self.module
        at = rows + (self.offset - module.origin)
        enter, leave = module.enter[at], self._leave(at)
        return enter, leave, (enter < leave) & ~self._invalid.at(rows)

    def _leave(self, at: Int64s) -> Int64s:
        """When the rows at these places leave, as far as it is known."""
        module = self.module
        match self.window:
            case Range(width=width):
                found: Int64s = module.time[at] + (width + 1)
            case Rows(count=count):
                found = module.time[at + count]
            case Unbounded():
                found = np.full(len(at), NEVER, np.int64)
            case _:
                found = module.leave[at]
        return found

    def span(self, partition: int) -> tuple[int, int]:
        """When the first row of a partition that is alive here entered, and when the last one leaves."""
        module = self.module
        p = module.partitions[partition]
        first, last = max(p.start, self.first + self.offset) - module.origin, p.end - 1 - module.origin
        if first > last:
            return NEVER, LEAST
        return int(module.time[first]), int(self._leave(np.array([last]))[0])

    def rows_leaving(self, after: int, now: int) -> Int64s:
        """The numbers of the rows from ``after`` on that leave at ``now`` or before."""
        module = self.module
        before = self.offset - module.origin
        places = slice(after + before, self.end + before)
        match self.window:
            case Range(width=width):
                n = int(np.searchsorted(module.time[places], now - width - 1, side="right"))
            case Rows(count=count):
                n = max(0, int(np.searchsorted(module.time[places], now, side="right")) - count)
            case Unbounded():
                n = 0
            case _:
                n = int(np.searchsorted(module.leave[places], now, side="right"))
        return np.arange(after, after + n)

    def expire(self, now: int) -> None:
        """This view no longer needs the rows that leave at ``now`` or before."""
        self.first += len(self.rows_leaving(self.first, now))
        self._invalid.drop(self.first)
        self.shared.drop()

    def codes_of(self, rows: Int64s, key: int) -> Int64s:
        return self.codes_at(rows, self.columns[key])

    def take_codes(self, rows: Int64s, attribute: int, out: Int64s, place: int) -> None:
        """Codes of an attribute of the module, into a column of a matrix."""
        module = self.module
        take_values(rows, self.offset - module.origin, module.codes, attribute, out, place)

    def codes_at(self, rows: Int64s, attribute: int) -> Int64s:
        """Codes of an attribute of the module."""
        return self.module.codes_of(rows + self.offset, attribute)

    def search(self, s: Search, room: int = 0) -> tuple[Int64s, Int64s]:
        """For every match the number of its request and of its row. Attributes and times are those of the module: rows
        leave ``remains`` later than the times with which ``min_leave`` is compared. ``room`` is for how many matches
        there is room at first."""
        module, leave = self.module, None
        if self.remains:
            leave = module.time
        elif self._rows_after is not None:
            leave = module.time[self._rows_after :]
        requests, rows = module.search(s, leave, self.first + self.offset, room)
        if self.offset:
            rows = rows - self.offset
        if self._invalid:
            there = ~self._invalid.at(rows)
            requests, rows = requests[there], rows[there]
        return requests, rows

    @property
    def nbytes(self) -> int:
        """Its share of the module."""
        module = self.shared.rows
        return 0 if module is None else module.nbytes // max(1, len(self.shared.views)) + self._invalid.nbytes

    def forget(self) -> None:
        """Its join was removed."""
        self.shared.remove(self)

    # ── moving to the module of an older join ─────────────────────────────────────────────────────────────────────

    @property
    def waits(self) -> bool:
        """Whether an older join might have a module for it."""
        late = self.shared_as is not None and self.stub.beginning.after is not None
        return late and self.leads and self.shared.rows is not None

    def older(self) -> tuple[SharedModule, int] | None:
        """The module of an older join that this view can move to now, and the offset of its rows there."""
        for stub in self.stub.store.stubs:
            view = stub.companion
            if not isinstance(view, ModuleView) or view.shared is self.shared or view.shared_as != self.shared_as:
                continue
            offset = self.stub.shift - stub.shift + view.offset
            module = view.shared.rows
            if module is None or not view.shared.serves(self, self.first + offset):
                continue
            if not stub.began_before(self.stub):
                continue
            if module.start <= self.first + offset <= module.end:
                return view.shared, offset
        return None

    def move(self, shared: SharedModule, offset: int) -> None:
        """Go on in the module of an older join."""
        self.remember_invalid()
        before = self.module
        rows = slice(self.first + self.offset - before.origin, self.end + self.offset - before.origin)
        self._times = before.time[rows].copy()
        self.shared.remove(self)
        shared.open(self, self.first + offset)
        self.shared, self.offset, self._columns = shared, offset, None

    def bring(self, codes: Callable[[int, int], Int64s]) -> None:
        """After a move: bring the rows that the module lacks. ``codes`` gives those of all its attributes for rows of
        this view, by their numbers."""
        module, lacking = self.module, self.end + self.offset - self.module.end
        if lacking > 0:
            module.insert(codes(self.end - lacking, self.end), self._times[len(self._times) - lacking :])
        self._times = np.empty(0, np.int64)

    def remember_invalid(self) -> None:
        """Keep which rows match nothing, as far as the module has said so until now."""
        if self.shared.several:
            return
        module = self.module
        rows = slice(self.first + self.offset - module.origin, self.end + self.offset - module.origin)
        self._invalid = RowFlags(self.first)
        self._invalid.append(module.enter[rows] == NEVER)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """The rows that this view needs with its own attributes; what other views add, they save. They are cut where
        partitions end, so that a snapshot writes the partitions only that changed since the last one."""
        module, offset = self.module, self.offset
        kept = [p for p in module.partitions if p.end - offset > self.first and p.start - offset < self.end]
        start = max(kept[0].start - offset, self.first if offset else 0) if kept else self.end
        rows = np.arange(start, self.end)
        at = rows + (offset - module.origin)
        valid = (module.enter[at] != NEVER) & ~self._invalid.at(rows)
        block = module.partition_rows * -(-LEAST_SAVED // module.partition_rows)

        def saved(values: Any) -> Aligned:
            return Aligned(start, values, len(rows), block)

        return {
            "attributes": [repr(a) for a in self.shared.attributes],
            "start": start,
            "first": self.first,
            "codes": saved(module.codes[at][:, list(self.columns)]),
            "time": saved(module.time[at]),
            "valid": saved(valid),
            "leave": saved(module.leave[at]) if self.stored else np.empty(0, np.int64),
            "ends": [min(p.end - offset, self.end) for p in kept],
            "specs": [to_plain(p.group.spec) for p in kept],
            "spec": to_plain(module.spec),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """The rows that were saved, in the module of the others if they stand at the same row."""
        start, time = int(state["start"]), np.asarray(plain(state["time"]))
        n = len(time)
        others = [v for v in self.shared.views if v.loaded and v is not self]
        if self.offset or any(v.stub.what != self.stub.what or v.end != start + n for v in others):
            self._part()
            others = []
        module = self.module
        self.loaded, self.first, self.end = True, int(state["first"]), start + n
        valid = np.asarray(plain(state["valid"]), np.bool_)
        if self.shared.several:
            self._invalid = RowFlags(start)
            self._invalid.append(~valid)
        codes = np.zeros((n, module.attributes), np.int64)
        codes[:, list(self.columns)] = np.asarray(plain(state["codes"])).reshape(n, len(self.attributes))
        specs, spec, ends = state["specs"], state["spec"], state["ends"]
        if list(state["attributes"]) != [repr(a) for a in self.shared.attributes]:
            spec = to_plain(self.initial(module.attributes))
            specs = [spec] * len(ends)
        saved = {
            "start": start, "first": self.first, "codes": codes, "time": time, "leave": plain(state["leave"]),
            "enter": np.empty(0, np.int64) if self.shared.several else np.where(valid, time, NEVER),
            "ends": ends, "specs": specs, "spec": spec,
        }  # fmt: skip
        module.load(self._with_others(saved) if others else saved)
        known = self.shared.known
        if not others:
            known.clear()
            known.update(dict.fromkeys(self.shared.attributes, start + n))
        for a in self.attributes:
            known[a] = min(known[a], self.first)

    def _with_others(self, mine: dict[str, Any]) -> dict[str, Any]:
        """What the module has, and this view's codes in their columns. The rows of both end at the same number. Rows
        that only one of them needs have no codes for the other, which does not look at them any more."""
        module = self.module
        there = module.state()
        there["codes"] = np.asarray(there["codes"]).reshape(len(there["time"]), module.attributes)
        longer, shorter = (mine, there) if mine["start"] < there["start"] else (there, mine)
        codes = longer["codes"].copy()
        own = list(self.columns)
        shared = len(codes) - len(shorter["codes"])
        if longer is there:
            codes[shared:, own] = mine["codes"][:, own]
        else:
            rest = [a for a in range(module.attributes) if a not in own]
            codes[shared:, rest] = there["codes"][:, rest]
            # An attribute of several views has the same codes in each of them.
        return {**longer, "codes": codes, "first": min(mine["first"], there["first"]), "spec": there["spec"]}

    def _part(self) -> None:
        """Go on with a module of its own."""
        self.shared.remove(self)
        self.shared, self._columns, self.offset = SharedModule(self.shared.partition_rows), None, 0
        self.shared.views.append(self)


def view_of(
    stub: Stub,
    peers: Iterable[Stub],
    attributes: Sequence[Attribute],
    ranged: frozenset[int],
    window: WindowSpec,
    partition_rows: int,
    initial: Callable[[int], IndexSpec],
    shared_as: Hashable = None,
) -> ModuleView:
    """A view for a join input that is about to start. ``shared_as`` says how its module is indexed and tuned, and that
    ``peers`` with the same elements may have the same module (None: it has one of its own)."""
    found = ModuleView(SharedModule(partition_rows), stub, attributes, ranged, window, initial)
    if shared_as is not None and stub.what is not None and not found.stored and all(map(_may_be_shared, attributes)):
        found.shared_as = (shared_as, partition_rows)
        for peer in peers:
            view = peer.companion
            if not isinstance(view, ModuleView) or view.shared.rows is not None:
                continue
            if peer.what == stub.what and view.shared_as == found.shared_as:
                found.shared = view.shared
                found.shared.views.append(found)
                break
    stub.companion = found
    return found
