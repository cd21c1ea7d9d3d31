"""A server in a process of its own, for tests: started, killed, started again."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.server.sse import Event, events

PATIENCE = 150.0  # seconds: the first query of its kind may wait for the compiler


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class RunningServer:
    def __init__(self, state: Path, *arguments: str, port: int = 0, cwd: Path | None = None) -> None:
        self.state, self.arguments, self.cwd = state, arguments, cwd
        self.token = ""
        self.port = port
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "eddyline.cli", "serve", "--state", str(self.state), "--port", str(self.port)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))}
        self.process = subprocess.Popen(
            [*command, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            cwd=self.cwd,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if "listens on" not in first:
            self.process.kill()
            raise RuntimeError(first + self.process.communicate()[1])
        self.port = int(first.split("/ (")[0].rpartition(":")[2])
        if not self.token:
            self.token = self.process.stdout.readline().rpartition(" ")[2].strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close()

    def stop(self) -> int:
        """As with Ctrl-C."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        status = self.process.returncode
        self._close()
        return int(status)

    def _close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()

    def followers_process(self) -> psutil.Process | None:
        """The process that serves followers, if there is one now."""
        children = psutil.Process(self.process.pid).children()
        return next((p for p in children if "eddyline.server.relay" in p.cmdline()), None)

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, token: str | None = ""
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, sent)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def follow(
        self, query: str, last_id: str | None = None, seconds: float = PATIENCE
    ) -> tuple[http.client.HTTPConnection, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        connection.request("GET", f"/v1/queries/{query}/follow", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {answer.read()!r}")
        return connection, events(answer)


__all__ = ["Answer", "Event", "RunningServer"]
