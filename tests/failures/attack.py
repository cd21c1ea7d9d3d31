"""Kills runs at random moments and damages random files of their checkpoints; every resumed run must give the exact
rows, or one sentence and an exit status that is not 0.

    python -m tests.failures.attack --kills 60 --damages 200 --seed 1

``--spilling`` attacks joins that spill most of their rows (``constraints = 'exact'``).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from eddyline import cli
from eddyline.engine import feeds, job
from eddyline.io import source
from eddyline.synopses import spill
from tests.failures.test_stopping import JOB, NAMES, inputs

Rows = dict[str, list[dict[str, Any]]]
ROWS_PER_BATCH = 16
SPILLED_BYTES = 600  # that wait in memory: small, so that many files are written

# A run as a user starts it, but with a snapshot after every few rows.
CHILD = f"""
import sys
from eddyline import cli
from eddyline.io import source
from eddyline.engine import feeds, job
from eddyline.synopses import spill
spill.BUFFER_BYTES = {SPILLED_BYTES}
source.BATCH_ROWS = {ROWS_PER_BATCH}
feeds.Feed.__init__.__defaults__ = ({ROWS_PER_BATCH},)
job.SECONDS_PER_SNAPSHOT = 0.0
print("started", flush=True)
sys.exit(cli.main(["run", "job.cql", "--out", sys.argv[1], "--checkpoint", sys.argv[2], "--quiet", *sys.argv[3:]]))
"""


class Wrong(AssertionError):
    """A resumed run gave other rows with exit status 0, or something else than a sentence."""


class Attack:
    """The job in a folder of its own, and the rows that it must give."""

    def __init__(
        self, folder: Path, seed: int, job: str = JOB, files: Mapping[str, str | bytes] | None = None,
        names: Sequence[str] = NAMES, options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.folder, self.random, self.names, self.options = folder, random.Random(seed), names, tuple(options)
        self.seconds = 0.2  # of a whole run, by now
        self.outcomes: Counter[str] = Counter()
        for name, content in {**(inputs() if files is None else files), "job.cql": job}.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        status, _ = self.run(None)
        assert status == 0
        self.expected = self.rows()

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, checkpoint: str | None) -> tuple[int, str]:
        """A run to the end in this process: its exit status and what it says on standard error."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        arguments = ["run", "job.cql", "--out", "out", "--quiet", *(["--checkpoint", checkpoint] if checkpoint else [])]
        arguments += self.options
        said = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            small_batches(self.random.choice((0.05, 1e9))),
            contextlib.redirect_stderr(said),
        ):
            status = cli.main(arguments)
        return status, said.getvalue()

    def rows(self) -> Rows:
        tables = {n: pq.read_table(self.folder / "out" / f"{n}.parquet").to_pylist() for n in self.names}
        return {n: sorted(rows, key=lambda r: (r["_time"], r.get("_sign"), str(r))) for n, rows in tables.items()}

    def judge(self, checkpoint: str, what: str) -> None:
        """Resume a run: the exact rows, or one sentence and no success."""
        status, said = self.run(checkpoint)
        if status == 0:
            if self.rows() != self.expected:
                raise Wrong(f"{what}: other rows, exit status 0")
            self.outcomes["exact rows"] += 1
            return
        is_sentence = said.startswith("error: ") and len(said.strip().splitlines()) == 1 and "--traceback" not in said
        if not is_sentence or status not in (1, 2):
            raise Wrong(f"{what}: exit status {status}, and this is not a sentence: {said}")
        self.outcomes["refused"] += 1

    # ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def kill(self, checkpoint: str) -> bool:
        """Start a run and kill it at a random moment; False if it ended before that."""
        run = subprocess.Popen(
            [sys.executable, "-c", CHILD, "killed", checkpoint, *self.options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert run.stdout is not None
        run.stdout.readline()
        begin = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(self.random.uniform(0, self.seconds))
        ended = run.poll() is not None
        if not ended:
            run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
        # Moments are drawn from the whole length of a run, which is learned from those that came to their end.
        self.seconds = (time.monotonic() - begin) * 1.2 if ended else self.seconds * 1.1
        self.outcomes["ended before the kill" if ended else "killed"] += 1
        return not ended

    def kills(self, count: int) -> list[str]:
        """Kill until so many runs were killed; after each, a copy is resumed. Returns the copies."""
        copies: list[str] = []
        while len(copies) < count:
            if not self.kill("state"):
                shutil.rmtree(self.folder / "state")  # it has ended: begin anew
                continue
            copy = f"killed-{len(copies)}"
            if not (self.folder / "state").exists():
                (self.folder / "state").mkdir()
            shutil.copytree(self.folder / "state", self.folder / copy)
            shutil.copytree(self.folder / "state", self.folder / "resumed", dirs_exist_ok=True)
            self.judge("resumed", f"kill {len(copies)}")
            if self.outcomes["refused"]:
                raise Wrong(f"kill {len(copies)}: the checkpoint of a killed run was refused")
            left = [p.name for p in (self.folder / "resumed").rglob("*.tmp")]
            left += [p.name for p in (self.folder / "out").rglob(".*")]
            if left:
                raise Wrong(f"kill {len(copies)}: leftovers {left}")
            shutil.rmtree(self.folder / "resumed")
            copies.append(copy)
        return copies

    # ── damages ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stages(self, count: int) -> list[str]:
        """Checkpoints of one job at several times, as runs leave them that are stopped after some steps."""
        found = []
        for n in range(count):
            said = contextlib.redirect_stderr(io.StringIO())
            with contextlib.chdir(self.folder), small_batches(), stopped_after(3 + 2 * n), said:
                cli.main(["run", "job.cql", "--out", "out", "--checkpoint", "stage", "--quiet", *self.options])
            shutil.copytree(self.folder / "stage", self.folder / f"stage-{n}")
            found.append(f"stage-{n}")
        return found

    def damages(self, count: int, states: list[str]) -> None:
        """Damage random files of random checkpoints, and resume."""
        states = [s for s in states if any(p.is_file() for p in (self.folder / s).rglob("*"))]
        ways: list[Callable[[Path, list[str]], str]] = [
            self.delete, self.truncate, self.flip, self.swap, self.older, self.replace_by_folder,
        ]  # fmt: skip
        for n in range(count):
            state = self.random.choice(states)
            shutil.rmtree(self.folder / "damaged", ignore_errors=True)
            shutil.copytree(self.folder / state, self.folder / "damaged")
            done = []
            for _ in range(self.random.choice((1, 1, 1, 2))):
                if not any(p.is_file() for p in (self.folder / "damaged").rglob("*")):
                    break
                done.append(self.random.choice(ways)(self.folder / "damaged", states))
            self.judge("damaged", f"damage {n} of {state}: {', '.join(done)}")

    def pick(self, folder: Path) -> Path:
        """A file; the few that others depend on as often as the many pieces."""
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        kinds = sorted({self.kind(p) for p in files})
        kind = self.random.choice(kinds)
        return self.random.choice([p for p in files if self.kind(p) == kind])

    @staticmethod
    def kind(path: Path) -> str:
        return "piece" if path.parent.name == "pieces" else path.suffix or path.name

    def delete(self, folder: Path, _: list[str]) -> str:
        path = self.pick(folder)
        path.unlink()
        return f"{path.relative_to(folder)} deleted"

    def truncate(self, folder: Path, _: list[str]) -> str:
        path = self.pick(folder)
        os.truncate(path, self.random.randrange(max(1, path.stat().st_size)))
        return f"{path.relative_to(folder)} cut off"

    def flip(self, folder: Path, _: list[str]) -> str:
        path = self.pick(folder)
        data = bytearray(path.read_bytes())
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        path.write_bytes(data)
        return f"a bit of {path.relative_to(folder)} flipped"

    def swap(self, folder: Path, _: list[str]) -> str:
        one, other = self.pick(folder), self.pick(folder)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        return f"{one.relative_to(folder)} and {other.relative_to(folder)} swapped"

    def older(self, folder: Path, states: list[str]) -> str:
        """Some file of another time in the place of this one's, or beside it."""
        origin = self.folder / self.random.choice(states)
        path = self.pick(origin)
        target = folder / path.relative_to(origin)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            return "nothing"
        shutil.copy(path, target)
        return f"{path.relative_to(origin)} taken from {origin.name}"

    def replace_by_folder(self, folder: Path, _: list[str]) -> str:
        path = self.pick(folder)
        path.unlink()
        path.mkdir()
        return f"{path.relative_to(folder)} made a folder"


SPILLING_JOB = """
CREATE STREAM R FROM 'r.csv' TIMESTAMP BY ts UNIQUE (id);
CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;
pairs: SELECT Istream(R.v, S.ts AS u) FROM R [ROWS UNBOUNDED], S [ROWS UNBOUNDED] WHERE R.id = S.id
       WITH (constraints = 'exact(collect=20, W=10)');
counted: SELECT count(*) AS n, sum(R.v) AS total FROM R [RANGE 200], S [RANGE 200] WHERE R.id = S.id
       WITH (constraints = 'exact(collect=20, W=10)');
"""


def spilling(rows: int = 600) -> dict[str, Any]:
    """A join whose keys come in order but for a few: rows are spilled, and some of them are needed again."""
    rng = random.Random(7)
    r, s = "ts,id,v\n", "ts,id\n"
    for t in range(rows):
        r += f"{t},{t},{rng.randint(0, 99)}\n"
        s += f"{t},{rng.randrange(rows) if rng.random() < 0.05 else max(0, t - rng.randint(0, 9))}\n"
    return {"job": SPILLING_JOB, "files": {"r.csv": r, "s.csv": s}, "names": ("pairs", "counted"),
            "options": ("--runtime", "inline", "--spill", "rest")}  # fmt: skip


@contextlib.contextmanager
def small_batches(every: float = 0.0) -> Iterator[None]:
    before = source.BATCH_ROWS, feeds.Feed.__init__.__defaults__, job.SECONDS_PER_SNAPSHOT
    buffered, spill.BUFFER_BYTES = spill.BUFFER_BYTES, SPILLED_BYTES
    source.BATCH_ROWS = ROWS_PER_BATCH  # type: ignore[misc]
    feeds.Feed.__init__.__defaults__ = (ROWS_PER_BATCH,)  # type: ignore[misc]
    job.SECONDS_PER_SNAPSHOT = every
    try:
        yield
    finally:
        source.BATCH_ROWS, feeds.Feed.__init__.__defaults__, job.SECONDS_PER_SNAPSHOT = before  # type: ignore[misc]
        spill.BUFFER_BYTES = buffered


@contextlib.contextmanager
def stopped_after(steps: int) -> Iterator[None]:
    """Ctrl-C after some steps, which leaves a whole checkpoint."""
    step, taken = job.Session.step, 0

    def counted(session: Any) -> bool:
        nonlocal taken
        taken += 1
        if taken == steps:
            signal.raise_signal(signal.SIGINT)
        return step(session)

    job.Session.step = counted  # type: ignore[method-assign]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        job.Session.step = step  # type: ignore[method-assign]
        signal.signal(signal.SIGINT, before)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=60)
    options.add_argument("--damages", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--spilling", action="store_true", help="attack a join that spills its rows")
    chosen = options.parse_args()
    os.environ["EDDYLINE_RUNTIME"] = "inline"
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), chosen.seed, **(spilling() if chosen.spilling else {}))
        copies = attack.kills(chosen.kills)
        print(f"kills: {dict(attack.outcomes)}")
        attack.outcomes.clear()
        attack.damages(chosen.damages, [*attack.stages(5), *copies])
        print(f"damages: {dict(attack.outcomes)}")


if __name__ == "__main__":
    main()
