"""``eddyline serve --demo``: a stream whose selectivities turn round every twenty seconds, and queries that follow it.

The filters of ``suspicious`` change their best order with the drift, so that one sees decisions being taken, and the
windowed join beside it shows queues, synopses and caches.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.io.source import SourceBatch
from eddyline.server.declarations import Declaration
from eddyline.server.formats import Parsed
from eddyline.server.service import Service

RATE = 4000  # rows a second
DRIFT_SECONDS = 20
COLUMNS = [("ts", "timestamp"), ("host", "bigint"), ("size", "bigint"), ("port", "bigint"), ("flags", "bigint")]
ALERTS = [("ts", "timestamp"), ("host", "bigint"), ("level", "bigint")]
QUERIES = {
    "suspicious": "SELECT Istream(host, size, port) FROM packets"
    " WHERE size % 100 < 50 AND port % 100 < 50 AND flags < 60 WITH (filters = 'a-greedy')",
    "loud": "SELECT Istream(host, sum(size) AS bytes, count(*) AS n) FROM packets [RANGE 5 SECONDS SLIDE 1 SECOND]"
    " WHERE host < 5 GROUP BY host",
    "alarmed": "SELECT Istream(a.host, a.level, p.size) FROM alerts [RANGE 10 SECONDS] a, packets [RANGE 2 SECONDS] p"
    " WHERE a.host = p.host AND p.size > 900",
    "rates": "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'query'",
}


class DemoRows:
    """Rows of an interval of time. Which of two filters drops most changes every ``DRIFT_SECONDS``."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate, self._random = rate, np.random.default_rng(7)

    def packets(self, begin: float, end: float) -> pa.RecordBatch:
        count, draw = max(1, int((end - begin) * self._rate)), self._random
        turned = int(end / DRIFT_SECONDS) % 2 == 1
        few, many = draw.integers(45, 100, count), draw.integers(0, 55, count)
        moments = np.linspace(begin, end, count, endpoint=False) * 1e6
        size, port = (few, many) if turned else (many, few)
        return pa.RecordBatch.from_pydict(
            {
                "ts": pa.array(moments.astype(np.int64)).cast(pa.timestamp("us")),
                "host": draw.zipf(1.5, count) % 50,
                "size": size + 100 * draw.integers(0, 15, count),
                "port": port + 100 * draw.integers(0, 600, count),
                "flags": draw.integers(0, 100, count),
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
        for name, columns in (("packets", COLUMNS), ("alerts", ALERTS)):
            body = {"columns": columns, "timestamp": "ts"}
            self._create(Declaration("stream", name, body))
        for name, text in QUERIES.items():
            self._create(Declaration("query", name, {"text": text, "options": {}}))

    def _create(self, declaration: Declaration) -> None:
        if declaration.name not in self._service.entries:  # it is there after a restart
            self._service.submit(lambda: self._service.create(declaration)).result()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        last = time.time()
        while not self._stopped.wait(0.1):
            now = time.time()
            try:
                self._push("packets", self._rows.packets(last, now))
                self._push("alerts", self._rows.alerts(last, now))
            except EddylineError:
                return  # a stream was dropped, or the server is stopping
            last = now

    def _push(self, name: str, rows: pa.RecordBatch) -> None:
        if name in self._service.entries and rows.num_rows:
            parsed = Parsed(rows.schema, [SourceBatch(rows)])
            self._service.submit(lambda: self._service.push(name, parsed), durable=False).result()
