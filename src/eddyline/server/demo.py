"""``eddyline serve --demo``: a stream whose selectivities turn round every twenty seconds, and queries that follow it.

The filters of ``suspicious`` change their best order with the drift, so that one sees decisions being taken, and the
windowed join beside it shows queues, synopses and caches. The filters search texts: of some hundred rows at a time, a
comparison of numbers would cost less than to call it, and no order would be worth a decision. More rows are profiled
than usual and fewer remembered, so that the order follows a drift of seconds within one or two.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
import pyarrow as pa

from eddyline.core.errors import EddylineError, JobError
from eddyline.io.source import SourceBatch
from eddyline.server.declarations import Declaration
from eddyline.server.formats import Parsed
from eddyline.server.service import Service

RATE = 4000  # rows a second
DRIFT_SECONDS = 20
TEXTS = 50  # different ones of each kind
COLUMNS = [("ts", "timestamp"), ("host", "bigint"), ("size", "bigint"), ("agent", "string"), ("path", "string")]
ALERTS = [("ts", "timestamp"), ("host", "bigint"), ("level", "bigint")]
QUERIES = {
    "suspicious": "SELECT Istream(host, size) FROM requests"
    " WHERE agent RLIKE 'bot|crawler|spider' AND path RLIKE 'admin|login|passwd' AND size < 1200"
    " WITH (filters = 'a-greedy(p = 0.05, window = 500)')",
    "loud": "SELECT Istream(host, sum(size) AS bytes, count(*) AS n) FROM requests [RANGE 5 SECONDS SLIDE 1 SECOND]"
    " WHERE host < 5 GROUP BY host",
    "alarmed": "SELECT Istream(a.host, a.level, r.size) FROM alerts [RANGE 10 SECONDS] a, requests [RANGE 2 SECONDS] r"
    " WHERE a.host = r.host AND r.size > 900",
    "rates": "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'query'",
}
AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) AppleWebKit/537.{n} (KHTML, like Gecko) Version/{n}.1.7 Build/{n}-{what}"
)
PATH = "/shop/en/catalogue/season-{n}/articles/{n}/variants/blue-green?order=price&page={n}&of=20&view={what}"


class DemoRows:
    """Rows of an interval of time. Which of two filters drops most changes every ``DRIFT_SECONDS``."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate, self._random = rate, np.random.default_rng(7)
        # Of each kind those that a filter drops, then those that it lets pass.
        self._agents = pa.array([AGENT.format(n=n, what=w) for w in ("release", "crawler") for n in range(TEXTS)])
        self._paths = pa.array([PATH.format(n=n, what=w) for w in ("list", "login") for n in range(TEXTS)])

    def _texts(self, kinds: pa.Array, passes: float, count: int) -> pa.Array:
        chosen = self._random.integers(0, TEXTS, count) + TEXTS * (self._random.random(count) < passes)
        return kinds.take(pa.array(chosen))

    def requests(self, begin: float, end: float) -> pa.RecordBatch:
        count, draw = max(1, int((end - begin) * self._rate)), self._random
        turned = int(end / DRIFT_SECONDS) % 2 == 1
        moments = np.linspace(begin, end, count, endpoint=False) * 1e6
        return pa.RecordBatch.from_pydict(
            {
                "ts": pa.array(moments.astype(np.int64)).cast(pa.timestamp("us")),
                "host": draw.zipf(1.5, count) % 50,
                "size": draw.integers(40, 1500, count),
                "agent": self._texts(self._agents, 0.9 if turned else 0.1, count),
                "path": self._texts(self._paths, 0.1 if turned else 0.9, count),
            }
        )

    def alerts(self, begin: float, end: float) -> pa.RecordBatch:
        moments = pa.array([int(end * 1e6) - 1], pa.int64()).cast(pa.timestamp("us"))
        hosts = self._random.integers(0, 50, 1)
        return pa.RecordBatch.from_pydict({"ts": moments, "host": hosts, "level": self._random.integers(1, 4, 1)})


class Demo(threading.Thread):
    """Pushes rows in real time until stopped."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="eddyline demo", daemon=True)
        self._service, self._stopped = service, threading.Event()
        self._rows = DemoRows()
        for name, columns in (("requests", COLUMNS), ("alerts", ALERTS)):
            body = {"columns": columns, "timestamp": "ts"}
            self._create(Declaration("stream", name, body))
        for name, text in QUERIES.items():
            self._create(Declaration("query", name, {"text": text, "options": {}}))

    def _create(self, declaration: Declaration) -> None:
        known = self._service.entries.get(declaration.name)
        if known is None:
            self._service.submit(lambda: self._service.create(declaration)).result()
        elif json.dumps(known.body) != json.dumps(declaration.body):  # not the one that is there after a restart
            raise JobError(
                f"{str(self._service.settings.state)!r} has another {known.kind} {known.name!r} than the demo: begin"
                " with an empty directory (--state)."
            )

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        last = time.time()
        while not self._stopped.wait(0.1):
            now = time.time()
            try:
                self._push("requests", self._rows.requests(last, now))
                self._push("alerts", self._rows.alerts(last, now))
            except EddylineError as error:  # such as a stream that was ended
                if not self._stopped.is_set():
                    print(f"the demo has stopped: {error}", file=sys.stderr, flush=True)
                return
            last = now

    def _push(self, name: str, rows: pa.RecordBatch) -> None:
        if name in self._service.entries and rows.num_rows:
            parsed = Parsed(rows.schema, [SourceBatch(rows)])
            self._service.submit(lambda: self._service.push(name, parsed), durable=False).result()
