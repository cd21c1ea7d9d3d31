"""Requests that Schemathesis draws from the OpenAPI description: no answer is an error of the server, and all come.

``test_fuzz.py`` draws values that the server knows, these are those of the description, valid and invalid."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.scale import DEEP
from tests.server.running import RunningServer

REQUESTS = 2000 if DEEP else 200
ROUNDS = 6  # at most: some operations have few different requests
SECONDS = 100  # an answer that takes longer is a hang
NAMES = st.sampled_from(["S", "hot"])


def test_requests_of_the_description(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state", "--max-rate", "100000", "--max-queries", "8") as server:
        address = f"http://127.0.0.1:{server.port}"
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        each = -(-REQUESTS // (2 * len(operations)))
        statuses: Counter[int] = Counter()
        reached: set[str] = set()
        for number in range(ROUNDS):
            for operation in operations:
                _declare(server)
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    try:
                        cases = operation.as_strategy(generation_mode=mode)
                        _run(server, address, cases, each, statuses, number)
                    except BaseException as error:
                        if "Unsatisfiable" not in type(error).__name__ and "negative" not in str(error).lower():
                            raise  # what takes no parameters cannot be asked wrongly
                reached.add(operation.label)
            if sum(statuses.values()) >= REQUESTS:
                break
        assert server.request("GET", "/healthz").status == 200 and server.process.poll() is None
    print(f"{sum(statuses.values())} requests of {len(reached)} operations: {sorted(statuses.items())}")
    assert len(reached) > 30 and sum(statuses.values()) >= REQUESTS
    assert sum(n for status, n in statuses.items() if status < 300) > REQUESTS // 20  # some reach what they ask for


def _declare(server: RunningServer) -> None:
    """What requests name is there, also after those that drop it."""
    columns = [["ts", "bigint"], ["a", "bigint"]]
    text = "hot: SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a"
    for path, body in (
        ("/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"}),
        ("/v1/queries", {"text": text}),
    ):
        answer = server.request("POST", path, body)
        assert answer.status == 201 or "already" in answer.data["error"] or answer.status == 409, answer


def _run(
    server: RunningServer, address: str, cases: st.SearchStrategy, count: int, statuses: Counter[int], number: int
) -> None:
    @seed(7 + number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, name=NAMES, known=st.booleans())
    def ask(case: schemathesis.Case, name: str, known: bool) -> None:
        if known and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = name
        if "wait" in (case.query or {}):
            case.query["wait"] = "0"  # an answer may be held back on purpose
        sent = case.as_transport_kwargs(base_url=address, headers={"Authorization": f"Bearer {server.token}"})
        # Events have no end: their head is an answer.
        with requests.request(**sent, stream=True, timeout=SECONDS) as answer:
            if "event-stream" not in answer.headers.get("content-type", ""):
                said = answer.content[:300]
                assert answer.status_code < 500, (sent, said)
            statuses[answer.status_code] += 1

    ask()
