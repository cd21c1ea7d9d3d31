"""The plan as a Mermaid flow chart. A pure function of the plan as data (``plan_data``)."""

from __future__ import annotations

from eddyline.plan.plan_data import PlanGraph, PlanNode


def mermaid(plan: PlanGraph) -> str:
    """Sources on top, the result below; edges carry the number of elements so far.

    >>> from eddyline.plan.plan_data import PlanEdge
    >>> nodes = (PlanNode("stream S", "stream"), PlanNode("select 1", "select", ("stream S",), 'a > "x"'))
    >>> print(mermaid(PlanGraph("q", "SELECT …", "istream", nodes, (PlanEdge("stream S", "select 1", 7),), "select 1")))
    flowchart TD
      n0[/"stream S"/]
      n1["select 1<br/>a > #quot;x#quot;"]
      n0 -->|"7"| n1
      n1 --> result(["istream"])
    """
    number = {node.id: f"n{i}" for i, node in enumerate(plan.nodes)}
    lines = ["flowchart TD", *(f"  {number[n.id]}{_box(n)}" for n in plan.nodes)]
    for edge in plan.edges:
        label = "" if edge.elements is None else f'|"{edge.elements:,}"|'
        lines.append(f"  {number[edge.source]} -->{label} {number[edge.target]}")
    lines.append(f'  {number[plan.root]} --> result(["{_escaped(plan.result)}"])')
    return "\n".join(lines)


def _box(node: PlanNode) -> str:
    parts = [node.id, *([node.text] if node.text else [])]
    if node.kept is not None:
        parts.append(f"{node.kept.rows:,} rows")
    text = "<br/>".join(map(_escaped, parts))
    if node.kept is not None:
        return f'[("{text}")]'
    return f'[/"{text}"/]' if node.kind in ("stream", "relation") else f'["{text}"]'


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;").replace("\n", " ")
