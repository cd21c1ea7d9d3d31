"""The session: declarations, queries that come and go, and the data that flow between them.

Each part has its file, and each stands on the one before: ``base_session`` (declarations), ``session_scheduling``,
``session_queries``, ``session_steps``, ``session_steering``, ``session_snapshots``.
"""

from __future__ import annotations

from pathlib import Path

from eddyline.core import arguments as check
from eddyline.core.amounts import amount
from eddyline.core.time import Clock
from eddyline.engine.ownership import in_turn
from eddyline.engine.session_snapshots import Saved


class Session(Saved):
    """Runs continuous queries in this process.

    ``strict`` stops at the first malformed row; ``sharing`` lets queries share the operators of equal sub-plans and the
    rows of windows over the same elements (assign ``session.sharing`` to switch it while queries run); ``scheduler``
    names the policy that chooses which operator runs next (by default ``fifo``, and ``chain`` under a budget);
    ``learned`` is a file, or the directory of a snapshot, with what earlier runs learned, where the same queries begin
    (``save_learned`` writes it); ``spill`` is a folder for rows that are kept outside of memory;
    ``memory`` (``'256 MB'``) is the option of that name of each query that has none of its own; ``clock`` is for tests.

    >>> session = Session()
    >>> packets = [{"ts": 1, "size": 40}, {"ts": 2, "size": 1500}, {"ts": 5, "size": 900}]
    >>> session.stream("packets", packets, timestamp="ts")
    >>> q = session.query("SELECT Istream(size) FROM packets WHERE size > 500")
    >>> q.to_arrow().to_pylist()
    [{'size': 1500, '_time': 2}, {'size': 900, '_time': 5}]

    Threads may share a session: one is at work in it at a time, and others wait for their turn (``ownership``).
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        strict: bool = False,
        sharing: bool = True,
        scheduler: str | None = None,
        base: Path | str | None = None,
        learned: Path | str | None = None,
        spill: Path | str | None = None,
        memory: str | int | None = None,
    ) -> None:
        super().__init__(
            clock=clock, strict=strict, sharing=sharing, scheduler=scheduler, base=base, learned=learned, spill=spill,
            memory=memory,
        )  # fmt: skip
        self._complete = True

    @property
    def sharing(self) -> bool:
        """Whether queries share the operators of equal sub-plans, and windows their rows."""
        return self._graph.sharing

    @sharing.setter
    @in_turn
    def sharing(self, on: bool) -> None:
        self._graph.share(check.flag(on, "sharing"))

    @property
    @in_turn
    def store_size(self) -> tuple[int, int]:
        """Rows and bytes in window stores, shared ones counted once."""
        return self._graph.registry.size()

    def __repr__(self) -> str:
        """
        >>> session = Session()
        >>> session.stream("S", [{"ts": 1, "a": 7}], timestamp="ts")
        >>> q = session.query("SELECT Istream(a) FROM S")
        >>> session
        <Session: S (0 rows); 1 query>
        >>> _ = q.to_arrow(); session
        <Session: S (1 row, ended); 1 query>
        """
        streams = [f"{s.name} ({amount(s.arrived, 'row')}{', ended' * s.finished})" for s in self.inputs.values()]
        constant = [d.name for d in self.catalog.relations.values() if d.constant]
        declared = ", ".join([*streams, *constant]) or "nothing declared"
        return f"<Session: {declared}; {amount(len(self.registered), 'query', 'queries')}>"
