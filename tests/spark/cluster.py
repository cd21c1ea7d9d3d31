"""A real Spark cluster in this machine: a standalone master and its workers, from the installed pyspark."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
STARTING = 60.0  # seconds


@dataclass(slots=True)
class StandaloneCluster:
    port: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    folder: Path

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """For a driver: everything stays on the loopback interface and in the folder."""
        return environment(self.folder)

    def executors(self) -> list[int]:
        """The processes that workers have started, and that have come far enough to work."""
        mine = {w.pid for w in self.workers}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if parent in mine and "CoarseGrainedExecutorBackend" in (entry / "cmdline").read_text():
                        found.append(int(entry.name))
        return sorted(found)

    def kill_executor(self) -> bool:
        """Whether there was one."""
        for executor in self.executors()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)
                return True
        return False


def environment(folder: Path) -> dict[str, str]:
    ours = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**{k: v for k, v in os.environ.items() if not k.startswith("SPARK")}, **ours}


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """A master and workers with one core each; all of them are ended by their ids."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(folder),
                cwd=folder,
            )
        started.append(process)
        return process

    try:
        master = start("master", "master.Master", "--port", str(port))
        _wait_for(folder / "master.log", "I have been elected leader", master)
        url = f"spark://127.0.0.1:{port}"
        own = []
        for n in range(workers):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{n}"), url)
            own.append(start(f"worker{n}", "worker.Worker", *more))
        for n, worker in enumerate(own):
            _wait_for(folder / f"worker{n}.log", "Successfully registered with master", worker)
        yield StandaloneCluster(port, master, own, folder)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTING
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")
        time.sleep(0.1)
