"""Random requests made from the OpenAPI description: no answer is an error of the server, and all come."""

from __future__ import annotations

import http.client
import json
import os
import random
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

from tests.scale import DEEP
from tests.server.running import RunningServer

REQUESTS = 2000 if DEEP else 400
SEED = int(os.environ.get("EDDYLINE_SEED", "5"))
WORDS = [
    "S",
    "q",
    "hot",
    "bigint",
    "ts",
    "a",
    "",
    " ",
    "é",
    "\x00",
    "../x",
    "a/b",
    "%",
    "'",
    "x" * 300,
    "SELECT",
    "late",
]
TEXTS = [
    "SELECT Istream(a) FROM S",
    "hot: SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a",
    "SELECT * FROM late(hot)",
    "SELECT 1 / a FROM S",
    "PIN QUERY hot",
    "UNDO DECISION 1 OF QUERY hot",
    "ALTER QUERY hot SET (filters = 'sweep')",
    "ALTER STREAM S SET SLACK 3",
    "CREATE STREAM T FROM '/etc/passwd' TIMESTAMP BY ts",
    "CREATE STREAM G FROM 'generate:packets?seconds=1' TIMESTAMP BY ts",
    "CREATE VIEW V AS SELECT a FROM S",
    "SELECT ((((((",
    ";;;",
]
BODIES = [
    b"",
    b"{",
    b"[]",
    b'{"ts": 1, "a": 2}\n{"ts": 2}',
    b"ts,a\n1,2\n",
    b"\xff\xfe",
    b"null",
    b"[[[[1]]]]",
    b'{"ts": 1e400}',
]
TYPES = [
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "text/plain",
    "",
]


class Draw:
    """Values by their schema, most of them of its type and some of another."""

    def __init__(self, description: dict[str, Any], seed: int) -> None:
        self.description, self.random = description, random.Random(seed)

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        draw = self.random
        if draw.random() < 0.08 or depth > 4:
            return draw.choice([None, -1, 2**70, 0.5, True, "", [], {}, "text", [1], {"x": 1}])
        if "$ref" in schema:
            return self.value(self.description["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(draw.choice(schema[union]), depth)
        match schema.get("type"):
            case "object":
                known = schema.get("properties", {})
                out = {
                    k: self.value(s, depth + 1)
                    for k, s in known.items()
                    if k in schema.get("required", ()) or draw.random() < 0.4
                }
                if not known:
                    out = {
                        draw.choice(["filters", "scheduler", "memory", "x y", "slack"]): draw.choice(
                            ["sweep", 1, None, "chain"]
                        )
                    }
                return out
            case "array":
                if "prefixItems" in schema:
                    return [self.value(s, depth + 1) for s in schema["prefixItems"]]
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(draw.randrange(4))]
            case "integer":
                return draw.choice([0, 1, 2, 99, -5, 2**40])
            case "number":
                return draw.choice([0, 0.1, -1.5, 1e300])
            case "boolean":
                return draw.random() < 0.5
            case "string":
                return draw.choice(TEXTS if draw.random() < 0.5 else WORDS)
        return draw.choice([None, 1, "x", []])


def test_random_requests(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state", "--max-rate", "100000", "--max-queries", "8") as server:
        server.request(
            "POST", "/v1/streams", {"name": "S", "columns": [["ts", "bigint"], ["a", "bigint"]], "timestamp": "ts"}
        )
        server.request("POST", "/v1/queries", {"text": TEXTS[1]})
        description = server.request("GET", "/openapi.json").data
        draw = Draw(description, SEED)
        routes = [(m, p, o) for p, found in description["paths"].items() for m, o in found.items()]
        assert len(routes) > 30
        statuses: Counter[int] = Counter()
        used: set[tuple[str, str]] = set()
        for _ in range(REQUESTS):
            method, path, operation = draw.random.choice(routes)
            status = send(server, method.upper(), path, operation, draw)
            used.add((method, path))
            statuses[status] += 1
        assert server.request("GET", "/healthz").status == 200
        assert server.process.poll() is None
    assert not [s for s in statuses if s >= 500], statuses
    assert len(used) == len(routes) and statuses[200] > REQUESTS / 20 and statuses[422] > REQUESTS / 20
    print(sorted(statuses.items()))


def send(server: RunningServer, method: str, path: str, operation: dict[str, Any], draw: Draw) -> int:
    query = []
    for p in operation.get("parameters", ()):
        value = draw.value(p["schema"])
        text = value if isinstance(value, str) else json.dumps(value)
        if p["in"] == "path":
            known = draw.random.random() < 0.6
            text = draw.random.choice(["S", "hot"]) if known and p["name"] == "name" else text
            path = path.replace("{" + p["name"] + "}", urllib.parse.quote(text, safe="") or "%20")
        elif draw.random.random() < 0.5:
            text = "0.2" if p["name"] == "wait" and draw.random.random() < 0.9 else text
            query.append((p["name"], text))
    headers = {"Authorization": f"Bearer {server.token}"}
    body: bytes | None = None
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content and len(content) == 1:
        body = json.dumps(draw.value(content["application/json"]["schema"])).encode()
        headers["Content-Type"] = "application/json"
        if draw.random.random() < 0.05:
            body = draw.random.choice(BODIES)
    elif content:
        body, headers["Content-Type"] = draw.random.choice(BODIES), draw.random.choice(TYPES)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=150)
    try:
        connection.request(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body, headers)
        answer = connection.getresponse()
        if "event-stream" not in (answer.getheader("content-type") or ""):
            said = answer.read()
            assert answer.status < 500, (method, path, query, body, said)
        return answer.status
    finally:
        connection.close()
