"""The curves, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OURS, NATIVE = "#0b6e99", "#b34700"
LOOK = {
    "ours": {"color": OURS, "marker": "o", "label": "Eddyline"},
    "native": {"color": NATIVE, "marker": "s", "label": "Spark's own"},
}
AXES = {"events": "events a micro-batch", "keys": "keys (windows of 0.6 ms a key)", "shards": "shards"}


def drawn(draw: Callable[..., list[Path]], rows: Sequence[dict[str, Any]], stem: Path) -> list[str]:
    """Lines for the report: where the picture is, or why there is none."""
    try:
        return [f"  {path}" for path in draw(rows, stem)]
    except ImportError:
        return ["  not drawn, for want of matplotlib: pip install 'eddyline[plot]'"]


def scaling(points: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    """Seconds of a steady micro-batch, one panel for each axis."""
    plt = _pyplot()
    axes = list(dict.fromkeys(p["axis"] for p in points))
    figure, panels = plt.subplots(1, len(axes), figsize=(4.2 * len(axes), 3.4), squeeze=False, layout="constrained")
    for axis, panel in zip(axes, panels[0], strict=True):
        for side in dict.fromkeys(p["side"] for p in points if p["axis"] == axis):
            mine = sorted((p["value"], p["seconds"]) for p in points if p["axis"] == axis and p["side"] == side)
            panel.plot(*zip(*mine, strict=True), **LOOK[side])
        panel.set_xscale("log")
        panel.set_xticks(sorted({p["value"] for p in points if p["axis"] == axis}))
        panel.xaxis.set_major_formatter(lambda v, _: f"{v / 1000:g} k" if v >= 1000 else f"{v:g}")
        panel.xaxis.set_minor_locator(plt.NullLocator())
        panel.set_ylim(bottom=0)
        panel.set_xlabel(AXES[axis])
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("seconds of a steady micro-batch")
    panels[0][0].legend(frameon=False)
    return _save(figure, stem)


def course(rows: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    """Every micro-batch of a run."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
    for side in dict.fromkeys(r["side"] for r in rows):
        mine = [(r["micro_batch"], r["milliseconds"] / 1000) for r in rows if r["side"] == side]
        panel.plot(*zip(*mine, strict=True), **{**LOOK[side], "marker": "."}, linewidth=0.8)
    later = [r["milliseconds"] for r in rows if r["micro_batch"] > 1]
    panel.set_ylim(0, 1.1 * max(later, default=1) / 1000)  # the first pays for start-up
    panel.set_xlabel("micro-batch")
    panel.set_ylabel("seconds")
    panel.grid(alpha=0.3)
    panel.legend(frameon=False)
    return _save(figure, stem)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, stem: Path) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(s) for s in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=130)
    return paths
