"""Many clients that declare, drop, push, follow and steer at random, and a kill: no answer is an error of the server's
own, and the catalog is after the restart what it was."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.scale import DEEP
from tests.server.running import Answer, RunningServer

ROUNDS, SECONDS = (6, 6.0) if DEEP else (2, 3.0)
SEED = int(os.environ.get("EDDYLINE_SEED", "8"))
CLIENTS = 8
NAMES = ["q0", "q1", "q2", "q3"]
TEXTS = [
    "SELECT Istream(a) FROM S WHERE a < 50 AND b < 50",
    "SELECT a, count(*) AS n FROM S [RANGE 50] GROUP BY a",
    "SELECT Istream(S.a) FROM S [RANGE 20], T [RANGE 20] WHERE S.a = T.a AND S.b < 50",
    "SELECT Istream(10 / (a - 3) AS z) FROM S",
    "SELECT * FROM late(q0)",
    "SELECT Istream(a) FROM q0",
    "SELECT Istream(query, value) FROM SysStream",
]
LOOKS = [
    "plan",
    "explain",
    "decisions",
    "report",
    "aside/late",
    "aside/shed",
    "results?limit=5",
    "results?format=arrow",
]
STEERS = ["pin", "unpin", "undo/1", "undo/2"]


class Client(threading.Thread):
    """One of many. ``clock`` is the time of the rows that all push."""

    def __init__(self, server: RunningServer, seed: int, clock: list[int], over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.server, self.random, self.clock, self.over = server, random.Random(seed), clock, over
        self.statuses: Counter[int] = Counter()
        self.wrong: list[Any] = []

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        answer = self.server.request(method, path, body, headers)
        self.statuses[answer.status] += 1
        if answer.status >= 500:
            self.wrong.append((method, path, str(body)[:100], answer))
        return answer

    def run(self) -> None:
        actions = [self.register] * 3 + [self.drop] * 2 + [self.push] * 5 + [self.look] * 3 + [self.steer] * 3
        while not self.over.is_set():
            try:
                self.random.choice([*actions, self.change_streams, self.follow])(self.random.choice(NAMES))
            except Exception as error:
                self.wrong.append(error)
                return

    def register(self, name: str) -> None:
        self.ask("POST", "/v1/queries", {"name": name, "text": self.random.choice(TEXTS)})

    def drop(self, name: str) -> None:
        self.ask("DELETE", f"/v1/queries/{name}")

    def push(self, _: str) -> None:
        draw = self.random
        self.clock[0] += 20
        at = self.clock[0] - draw.choice([0, 0, 0, 100])
        rows = [{"ts": at + i, "a": draw.randrange(60), "b": draw.randrange(100)} for i in range(20)]
        body = "".join(json.dumps(r) + "\n" for r in rows).encode()
        path = f"/v1/streams/{draw.choice('ST')}/rows?wait={draw.choice(['true', 'false'])}"
        self.ask("POST", path, body, {"Content-Type": "application/x-ndjson"})

    def look(self, name: str) -> None:
        path = f"/v1/queries/{name}/{self.random.choice(LOOKS)}"
        self.ask("GET", self.random.choice([path, path, "/v1/catalog", "/v1/queries", "/metrics", "/v1/streams/S"]))

    def steer(self, name: str) -> None:
        if self.random.random() < 0.5:
            self.ask("POST", f"/v1/queries/{name}/{self.random.choice(STEERS)}")
        else:
            value = self.random.choice(["sweep", "a-greedy", "static", None])
            self.ask("PATCH", f"/v1/queries/{name}", {"options": {"filters": value}})

    def change_streams(self, _: str) -> None:
        match self.random.randrange(4):
            case 0:
                self.ask("DELETE", "/v1/streams/T")
                declare(self.server, "T")
            case 1:
                self.ask("POST", "/v1/streams/T/finish")
            case 2:
                self.ask("PATCH", "/v1/streams/S", {"slack": self.random.randrange(5)})
            case _:
                self.ask("POST", "/v1/streams/S/heartbeat", {"time": self.clock[0] - 50})

    def follow(self, name: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request("GET", f"/v1/queries/{name}/{self.random.choice(['follow', 'watch?every=0.1'])}")
            answer = connection.getresponse()
            if answer.status >= 500:
                self.wrong.append((name, answer.status, answer.read()))
        finally:
            connection.close()


def declare(server: RunningServer, name: str) -> None:
    columns = [["ts", "bigint"], ["a", "bigint"], ["b", "bigint"]]
    server.request("POST", "/v1/streams", {"name": name, "columns": columns, "timestamp": "ts"})


def listed(server: RunningServer) -> list[tuple[str, str, Any]]:
    """What is declared, and which queries run with how many results."""
    found = server.request("GET", "/v1/catalog").data
    return [(kind, d["name"], (d.get("status"), d.get("rows"))) for kind in found for d in found[kind]]


def test_many_clients_at_once_and_a_kill(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "state", "--max-rate", "100000")
    try:
        for name in "ST":
            declare(server, name)
        statuses: Counter[int] = Counter()
        clock = [0]
        for number in range(ROUNDS):
            over = threading.Event()
            clients = [Client(server, SEED + 100 * number + n, clock, over) for n in range(CLIENTS)]
            for c in clients:
                c.start()
            time.sleep(SECONDS)
            over.set()
            for c in clients:
                c.join(150)
                statuses += c.statuses
            assert [w for c in clients for w in c.wrong] == []
            server.request(
                "POST", "/v1/streams/S/heartbeat", {"time": 0}
            )  # its answer: what came before it is committed
            before = listed(server)
            server.kill()
            server.start()
            after = listed(server)
            # Queries over the system's own streams go on with time.
            own = {q["name"] for q in server.request("GET", "/v1/queries").data if "SysStream" in q["text"]}
            assert [d for d in after if d[1] not in own] == [d for d in before if d[1] not in own]
        print(sorted(statuses.items()))
        assert statuses[200] > 30 and statuses[201] > 5 and statuses[204] > 5
    finally:
        server.stop()
