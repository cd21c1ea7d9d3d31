// Where the nodes of a plan stand: inputs at the left, the result at the right, one column for each distance from it.

import type { Plan } from "./api";

export interface Placed {
  id: string;
  x: number;
  y: number;
}

export interface Layout {
  nodes: Map<string, Placed>;
  width: number;
  height: number;
}

export const BOX = { width: 190, height: 66, gapX: 74, gapY: 26 };

export function layout(plan: Plan, hidden: Set<string>): Layout {
  const inputs = new Map(plan.nodes.map((n) => [n.id, n.inputs]));
  const visible = (id: string): string[] =>
    (inputs.get(id) ?? []).flatMap((i) => (hidden.has(i) ? visible(i) : [i]));
  const depth = new Map<string, number>();
  const visit = (id: string, d: number): void => {
    if ((depth.get(id) ?? -1) >= d) return;
    depth.set(id, d);
    for (const i of visible(id)) visit(i, d + 1);
  };
  const roots = hidden.has(plan.root) ? visible(plan.root) : [plan.root];
  for (const r of roots) visit(r, 0);
  const deepest = Math.max(0, ...depth.values());
  const rows = new Map<string, number>();
  let next = 0;
  const place = (id: string): number => {
    const known = rows.get(id);
    if (known !== undefined) return known;
    const below = visible(id).map(place);
    const row = below.length ? (Math.min(...below) + Math.max(...below)) / 2 : next++;
    rows.set(id, row);
    return row;
  };
  roots.forEach(place);
  const nodes = new Map<string, Placed>();
  for (const [id, d] of depth) {
    nodes.set(id, {
      id,
      x: (deepest - d) * (BOX.width + BOX.gapX) + 10,
      y: (rows.get(id) ?? 0) * (BOX.height + BOX.gapY) + 10,
    });
  }
  return {
    nodes,
    width: (deepest + 1) * (BOX.width + BOX.gapX) - BOX.gapX + 20,
    height: Math.max(1, next) * (BOX.height + BOX.gapY) + 4,
  };
}

/** Edges between nodes that are shown, with the queue that waits on them. */
export function edges(plan: Plan, hidden: Set<string>): { source: string; target: string; waiting: number }[] {
  const waits = new Map(plan.edges.map((e) => [`${e.source}→${e.target}`, e.waiting ?? 0]));
  const inputs = new Map(plan.nodes.map((n) => [n.id, n.inputs]));
  const found: { source: string; target: string; waiting: number }[] = [];
  const walk = (target: string, id: string, waiting: number): void => {
    for (const i of inputs.get(id) ?? []) {
      const sum = waiting + (waits.get(`${i}→${id}`) ?? 0);
      if (hidden.has(i)) walk(target, i, sum);
      else found.push({ source: i, target, waiting: sum });
    }
  };
  for (const n of plan.nodes) if (!hidden.has(n.id)) walk(n.id, n.id, 0);
  return found;
}
