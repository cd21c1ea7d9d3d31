// Where the entities of a plan stand. ELK places them, in a worker; until it has, and in a page without a server, they
// stand in columns: inputs at the left, the result at the right, one column for each distance from it.

import Elk, { type ELK, type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api";
import worker from "elkjs/lib/elk-worker.min.js?url";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Item, Scene } from "./scene";

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  places: Map<string, Point>;
  routes: Map<string, Point[]>; // of links, where they are known
  width: number;
  height: number;
  by: "elk" | "columns";
}

const GAP = { x: 86, y: 20 };
// Between a box and the next thing on its right: a line, and where no queue carries the rate, room for that.
const SPACING = { withQueues: 20, withRates: 64 };

export function columns(scene: Scene): Layout {
  const flows = scene.links.filter((l) => l.kind === "flow" && l.rated);
  const inputs = new Map<string, string[]>();
  for (const l of flows) inputs.set(l.to, [...(inputs.get(l.to) ?? []), l.from]);
  const main = scene.items.filter((i) => i.kind === "operator" || i.kind === "source");
  const read = new Set(flows.map((l) => l.from));
  const depth = new Map<string, number>();
  const visit = (id: string, d: number): void => {
    if ((depth.get(id) ?? -1) >= d) return;
    depth.set(id, d);
    for (const i of inputs.get(id) ?? []) visit(i, d + 1);
  };
  const roots = main.filter((i) => !read.has(i.id)).map((i) => i.id);
  for (const r of roots) visit(r, 0);
  const kept = new Map<string, Item[]>();
  for (const l of scene.links) {
    if (l.kind === "keeps") kept.set(l.source, [...(kept.get(l.source) ?? []), scene.items.find((i) => i.id === l.target)!]);
  }
  const sizes = new Map(main.map((i) => [i.id, i]));
  const highest = Math.max(0, ...main.map((i) => i.height));
  const tall = highest + Math.max(0, ...[...kept.values()].map((k) => 30 * k.length)) + GAP.y;
  const deepest = Math.max(0, ...depth.values());
  const wide = Array.from({ length: deepest + 1 }, (_, d) => Math.max(0, ...main.filter((i) => depth.get(i.id) === d).map((i) => i.width)));
  const left = (d: number): number => wide.slice(d + 1).reduce((sum, w) => sum + w + GAP.x, 10);
  const rows = new Map<string, number>();
  let next = 0;
  const place = (id: string): number => {
    const known = rows.get(id);
    if (known !== undefined) return known;
    const below = (inputs.get(id) ?? []).map(place);
    const row = below.length ? (Math.min(...below) + Math.max(...below)) / 2 : next++;
    rows.set(id, row);
    return row;
  };
  roots.forEach(place);
  const places = new Map<string, Point>();
  for (const [id, d] of depth) {
    const at = { x: left(d), y: (rows.get(id) ?? 0) * tall + 10 + (highest - (sizes.get(id)?.height ?? 0)) / 2 }; // the middles of a row in one line
    places.set(id, at);
    (kept.get(id) ?? []).forEach((k, n) => places.set(k.id, { x: at.x + 16, y: at.y + sizes.get(id)!.height + 6 + 30 * n }));
  }
  for (const i of scene.items.filter((i) => i.kind === "queue")) {
    const link = scene.links.find((l) => l.target === i.id)!;
    const [a, b] = [places.get(link.from), places.get(link.to)];
    const [from, to] = [sizes.get(link.from), sizes.get(link.to)];
    if (a && b && from && to) places.set(i.id, { x: (a.x + from.width + b.x) / 2 - i.width / 2, y: (a.y + from.height / 2 + b.y + to.height / 2) / 2 - i.height / 2 });
  }
  return { places, routes: new Map(), width: left(-1) - GAP.x + 10, height: Math.max(1, next) * tall + 4, by: "columns" };
}

let elk: ELK | null = null;

/** ELK in a worker: a file beside the page, or a text within a page that is one file. A notebook has neither. */
function engine(): ELK | null {
  const inside = document.getElementById("elk")?.textContent;
  if (!inside && document.getElementById("bundle")) return null;
  elk ??= new Elk({ workerFactory: () => new Worker(inside ? URL.createObjectURL(new Blob([inside], { type: "text/javascript" })) : worker) });
  return elk;
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.spacing.nodeNode": "18",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.thoroughness": "3", // of 7: large plans take seconds otherwise
  "elk.padding": "[top=10,left=10,bottom=10,right=10]",
};

function spacing(scene: Scene): number {
  const queues = new Set(scene.items.filter((i) => i.kind === "queue").map((i) => i.id));
  return scene.links.every((l) => !l.rated || queues.has(l.target)) ? SPACING.withQueues : SPACING.withRates;
}

async function placed(found: ELK, scene: Scene): Promise<Layout> {
  // What an operator keeps hangs below it: ELK gets both as one box.
  const kept = new Map<string, Item[]>();
  const hung = new Set<string>();
  for (const l of scene.links) {
    if (l.kind !== "keeps") continue;
    kept.set(l.source, [...(kept.get(l.source) ?? []), scene.items.find((i) => i.id === l.target)!]);
    hung.add(l.target);
  }
  const children: ElkNode[] = scene.items
    .filter((i) => !hung.has(i.id))
    .map((i) => ({
      id: i.id,
      width: i.width,
      height: i.height + 30 * (kept.get(i.id)?.length ?? 0),
      layoutOptions: { "elk.portConstraints": "FIXED_POS" },
      ports: [
        { id: `in ${i.id}`, x: 0, y: i.height / 2, width: 0, height: 0, layoutOptions: { "elk.port.side": "WEST" } },
        { id: `out ${i.id}`, x: i.width, y: i.height / 2, width: 0, height: 0, layoutOptions: { "elk.port.side": "EAST" } },
      ],
    }));
  const graph: ElkNode = {
    id: "plan",
    layoutOptions: { ...OPTIONS, "elk.layered.spacing.nodeNodeBetweenLayers": String(spacing(scene)) },
    children,
    edges: scene.links.filter((l) => l.kind === "flow").map((l) => ({ id: l.id, sources: [`out ${l.source}`], targets: [`in ${l.target}`] })),
  };
  const out = await found.layout(graph);
  const places = new Map<string, Point>();
  for (const c of out.children ?? []) {
    const item = scene.items.find((i) => i.id === c.id)!;
    places.set(c.id, { x: c.x ?? 0, y: c.y ?? 0 });
    (kept.get(c.id) ?? []).forEach((k, n) => places.set(k.id, { x: (c.x ?? 0) + 16, y: (c.y ?? 0) + item.height + 6 + 30 * n }));
  }
  const routes = new Map<string, Point[]>();
  for (const e of (out.edges ?? []) as ElkExtendedEdge[]) {
    const s = e.sections?.[0];
    if (s) routes.set(e.id, [s.startPoint, ...(s.bendPoints ?? []), s.endPoint]);
  }
  return { places, routes, width: out.width ?? 100, height: out.height ?? 100, by: "elk" };
}

/** The layout of a scene; it changes only when the scene's shape does. */
export function useLayout(found: Scene): Layout {
  const quick = useMemo(() => columns(found), [found]);
  const [better, setBetter] = useState<{ scene: Scene; layout: Layout } | null>(null);
  useEffect(() => {
    let over = false;
    const by = engine();
    if (by) {
      placed(by, found).then(
        (layout) => {
          if (!over) setBetter({ scene: found, layout });
        },
        (e: Error) => console.warn(`the layout in columns stays: ${e.message}`),
      );
    }
    return () => {
      over = true;
    };
  }, [found]);
  return better?.scene === found ? better.layout : quick;
}
