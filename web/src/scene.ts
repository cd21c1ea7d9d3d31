// What is drawn of a plan: its operators, and as entities of their own the queues between them, the synopses and caches
// that they keep, and what they share with other queries.

import type { Plan, PlanNode } from "./api";
import { widthOf } from "./words";

export type Kind = "operator" | "source" | "queue" | "synopsis" | "cache" | "sharing";

export interface Item {
  id: string;
  kind: Kind;
  of: string; // the node of the plan; of a queue the one that reads from it
  width: number;
  height: number;
  label: string;
}

export interface Link {
  id: string;
  source: string;
  target: string;
  kind: "flow" | "keeps";
  from: string; // nodes of the plan
  to: string;
  rated: boolean; // carries the rate of the edge
}

export interface Scene {
  items: Item[];
  links: Link[];
}

const BOX = { least: 112, most: 260, head: 32, line: 15 }; // widths, and heights of its parts
const MOST_LINES = 4; // of what an operator evaluates
const QUEUE = { width: 46, height: 22 };
const STORE = { width: 130, height: 24 };
const SOURCES = new Set(["stream", "relation"]);
const CHEAP = new Set(["project", "i-stream", "d-stream", "changes"]);

export const isSource = (n: PlanNode): boolean => SOURCES.has(n.kind);

/** The name of a stream or a relation, out of the id of its node. */
export const sourceName = (n: PlanNode): string => (n.kind === "relation" && n.text ? n.text : n.id.replace(/^\w+ /, "")).split(/ \(| AS /)[0]!;

/** Operators that cost next to nothing, but for the last one. */
export function cheap(plan: Plan): Set<string> {
  return new Set(plan.nodes.filter((n) => CHEAP.has(n.kind) && n.id !== plan.root).map((n) => n.id));
}

/** What an operator evaluates; conjuncts in the order in which they stand now, where all rows have the same. */
export function nowText(n: PlanNode): string {
  const { filters, order } = n.knows as { filters?: string[]; order?: number[] };
  if (!Array.isArray(filters) || !Array.isArray(order) || order.length !== filters.length) return n.text;
  return order.map((i) => filters[i]).join(" AND ");
}

/** Above the line of the metric: the name of a box. */
export const titleOf = (n: PlanNode): string => n.id.replace(/ \(.*\)$/, "") + (n.strategy ? " ⟳" : "");

/** Lines below the name: what is evaluated, conjuncts one by one in the order of now. */
export function linesOf(n: PlanNode): string[] {
  const { filters, order } = n.knows as { filters?: string[]; order?: number[] };
  if (!Array.isArray(filters) || filters.length < 2) {
    const text = nowText(n) || n.id.replace(/^[^(]*/, "");
    return text ? [text] : [];
  }
  const now = Array.isArray(order) && order.length === filters.length ? order.map((i, k) => `${k + 1} ${filters[i]}`) : filters;
  return now.length <= MOST_LINES ? now : [...now.slice(0, MOST_LINES - 1), `… ${now.length - MOST_LINES + 1} more`];
}

/** The size of a box: it does not change with an order. */
function sizeOf(n: PlanNode): { width: number; height: number } {
  const { filters } = n.knows as { filters?: string[] };
  const lines = linesOf(n);
  const texts = lines.length > 1 ? filters!.map((f) => `1 ${f}`) : lines;
  const wanted = 22 + Math.max(widthOf(titleOf(n), "title"), ...texts.map((t) => widthOf(t, "text")));
  return { width: Math.ceil(Math.min(BOX.most, Math.max(BOX.least, wanted))), height: BOX.head + BOX.line * (lines.length + (isSource(n) ? 0 : 1)) };
}

export interface Cache {
  cache?: string;
  state?: string;
}

export function caches(n: PlanNode): Cache[] {
  const found = n.knows["caches"];
  return Array.isArray(found) ? (found as Cache[]).filter((c) => c.state === "used") : [];
}

/** Operators that other queries read too, the last of each chain. */
function sharings(plan: Plan): PlanNode[] {
  const shared = plan.nodes.filter((n) => (n.readers?.length ?? 0) > 1);
  return shared.filter((n) => !shared.some((m) => m.inputs.includes(n.id) && m.readers!.join() === n.readers!.join()));
}

export interface Between {
  source: string;
  target: string;
  waiting: number;
  counted: boolean;
}

/** Edges between nodes that are shown, with the queue that waits on them. */
export function edges(plan: Plan, hidden: Set<string>): Between[] {
  const waits = new Map(plan.edges.map((e) => [`${e.source}→${e.target}`, e.waiting]));
  const inputs = new Map(plan.nodes.map((n) => [n.id, n.inputs]));
  const found: Between[] = [];
  const walk = (target: string, id: string, waiting: number, counted: boolean): void => {
    for (const i of inputs.get(id) ?? []) {
      const here = waits.get(`${i}→${id}`);
      const sum = waiting + (here ?? 0);
      const known = counted || (here !== null && here !== undefined);
      if (hidden.has(i)) walk(target, i, sum, known);
      else found.push({ source: i, target, waiting: sum, counted: known });
    }
  };
  for (const n of plan.nodes) if (!hidden.has(n.id)) walk(n.id, n.id, 0, false);
  return found;
}

export function scene(plan: Plan, hidden: Set<string>): Scene {
  const items: Item[] = [];
  const links: Link[] = [];
  const keep = (n: PlanNode, id: string, kind: Kind, label: string): void => {
    items.push({ id, kind, of: n.id, ...STORE, label });
    links.push({ id: `${n.id} keeps ${id}`, source: n.id, target: id, kind: "keeps", from: n.id, to: n.id, rated: false });
  };
  for (const n of plan.nodes) {
    if (hidden.has(n.id)) continue;
    items.push({ id: n.id, kind: isSource(n) ? "source" : "operator", of: n.id, ...sizeOf(n), label: n.id });
    if (n.kept) keep(n, `synopsis of ${n.id}`, "synopsis", "synopsis");
    for (const c of caches(n)) keep(n, `cache ${c.cache ?? ""} of ${n.id}`, "cache", c.cache ?? "cache");
  }
  for (const n of sharings(plan)) {
    if (!hidden.has(n.id)) keep(n, `sharing of ${n.id}`, "sharing", `shared by ${n.readers!.length} queries`);
  }
  for (const e of edges(plan, hidden)) {
    const { source: from, target: to } = e;
    if (!e.counted) {
      links.push({ id: `${from} to ${to}`, source: from, target: to, kind: "flow", from, to, rated: true });
      continue;
    }
    const queue = `queue from ${from} to ${to}`;
    items.push({ id: queue, kind: "queue", of: to, ...QUEUE, label: `${from} → ${to}` });
    links.push({ id: `${from} to ${queue}`, source: from, target: queue, kind: "flow", from, to, rated: true });
    links.push({ id: `${queue} to ${to}`, source: queue, target: to, kind: "flow", from, to, rated: false });
  }
  return { items, links };
}
