"""Where the time of a micro-batch goes, and how far we are from what Spark costs anyway."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness import Limit, Options, Report
from benchmarks.spark.configuration import Configuration, Outcome
from benchmarks.spark.contests import QUICK_BATCH, QUICK_BATCHES, check
from benchmarks.spark.fresh import measure

MEANING = {
    "read": "read the streams",
    "map": "… through Python and back, untouched",
    "pack": "read, pack into blobs",
    "identity": "… shuffle, state, an identity inside",
    "results": "… and as many results",
    "ours": "… and the engine instead",
}
PHASES = ("latestOffset", "queryPlanning", "getBatch", "walCommit", "addBatch", "commitOffsets")
STORE = {  # Spark's name, ours; milliseconds summed over the tasks
    "allUpdatesTimeMs": "in the tasks",
    "commitTimeMs": "commit of the state",
    "rocksdbCommitFlushLatency": "flush",
    "rocksdbCommitCheckpointLatency": "local checkpoint",
    "rocksdbCommitFileSyncLatencyMs": "copy of files",
}


class Floor:
    name = "floor"
    title = "three-way join, step by step, seconds of a steady micro-batch"
    sizes = ((500_000, 8), (100_000, 20))  # events of a micro-batch, micro-batches

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title, details={"outcomes": []})
        sizes = ((QUICK_BATCH, QUICK_BATCHES),) if options.quick else self.sizes
        columns: dict[int, dict[str, Outcome]] = {}
        for batch, batches in sizes:
            first = Configuration("three-way", "read", batch * batches, batch, memory="2g" if options.quick else "6g")
            found = measure([replace(first, side=s) for s in MEANING], together=options.quick or not options.fresh)
            check(found[-1:])
            columns[batch] = {o.configuration.side: o for o in found}
            report.details["outcomes"] += [o.to_json() for o in found]
            ours, identity, results = (columns[batch][s].steady for s in ("ours", "identity", "results"))
            report.limits.append(Limit(f"{batch:,} events a micro-batch, against an identity", ours / identity, 1.5))
            report.limits.append(
                Limit(f"{batch:,} events a micro-batch, against an identity with results", ours / results, 1.5)
            )
        report.lines = [f"  {'events a micro-batch':42s}" + "".join(f"{b:>18,}" for b in columns)]
        for side, meaning in MEANING.items():
            cells = [f"{found[side].steady:8.2f} ({_step(found, side):+.2f})" for found in columns.values()]
            report.lines.append(f"  {meaning:42s}" + "".join(f"{c:>18s}" for c in cells))
        report.lines += self._inside(columns)
        return report

    def _inside(self, columns: dict[int, dict[str, Outcome]]) -> list[str]:
        lines = ["  within ours, milliseconds"]
        for phase in PHASES:
            cells = [f"{found['ours'].phases.get(phase, 0):,.0f}" for found in columns.values()]
            lines.append(f"    {phase:40s}" + "".join(f"{c:>18s}" for c in cells))
        lines.append("  state store of ours, and of the identity, milliseconds added up over tasks")
        for name, meaning in STORE.items():
            cells = [
                f"{found['ours'].store.get(name, 0):,.0f} / {found['identity'].store.get(name, 0):,.0f}"
                for found in columns.values()
            ]
            lines.append(f"    {meaning:40s}" + "".join(f"{c:>18s}" for c in cells))
        return lines


def _step(found: dict[str, Outcome], side: str) -> float:
    """What a step adds to the one that it builds on."""
    below = {"read": None, "map": "read", "pack": "read", "identity": "pack", "results": "identity", "ours": "identity"}
    under = below[side]
    return found[side].steady - (found[under].steady if under else 0.0)
