// The drawing of a plan: boxes for operators, and smaller ones for queues, synopses, caches and sharing.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Plan, PlanNode, Sample } from "./api";
import { rates, ratios, type Rate, type Ratio } from "./history";
import { useLayout, type Layout, type Point } from "./layout";
import { memo } from "./memo";
import { caches, edges, isSource, nowText, scene, sourceName, type Item, type Link } from "./scene";
import { amount, duration } from "./words";

export const METRICS = {
  time: "time: seconds of work in a second",
  rate: "rate: rows a second",
  selectivity: "selectivity: rows out for a row in",
  memory: "memory: bytes kept",
  queue: "queue: rows that wait",
} as const;
export type Metric = keyof typeof METRICS;

/** Rows that wait before each operator. */
export function waiting(plan: Plan): Map<string, number> {
  const found = new Map<string, number>();
  for (const e of plan.edges) found.set(e.target, (found.get(e.target) ?? 0) + (e.waiting ?? 0));
  return found;
}

function measure(n: PlanNode, rate: Rate | undefined, ratio: Ratio | undefined, metric: Metric, waits: Map<string, number>): number {
  switch (metric) {
    case "time":
      return rate?.busy ?? n.statistics["seconds"] ?? 0;
    case "rate":
      return rate?.rowsIn ?? n.statistics["elements_in"] ?? 0;
    case "selectivity":
      return ratio?.selectivity ?? 0;
    case "memory":
      return n.kept?.bytes ?? 0;
    case "queue":
      return waits.get(n.id) ?? 0;
  }
}

/** `live`: there are two samples, and so rates; one alone, as in a notebook, has what was done so far. */
function said(value: number, metric: Metric, live: boolean): string {
  if (metric === "time" && !live) return `${duration(value)} in all`;
  if (metric === "rate" && !live) return `${amount(value, "rows")} in all`;
  if (metric === "time") return `${(100 * value).toFixed(1)} % busy`;
  if (metric === "rate") return amount(value, "rows/s");
  if (metric === "memory") return amount(value, "B");
  if (metric === "queue") return amount(value, "rows wait");
  return `${value.toFixed(3)} out of 1`;
}

interface GraphProps {
  samples: Sample[];
  index: number;
  metric: Metric;
  hidden: Set<string>;
  selected: string | null;
  select: (id: string) => void;
  label: string;
}

export function PlanGraph(props: GraphProps) {
  const sample = props.samples[props.index]!;
  const { plan } = sample;
  const found = useMemo(() => rates(props.samples, props.index), [sample]);
  const lately = useMemo(() => ratios(props.samples, props.index), [sample]);
  // The shape: what changes it moves boxes; counts do not.
  const shape = plan.nodes.map((n) => `${n.id}<${n.inputs.join()}${n.kept ? "k" : ""}${caches(n).map((c) => c.cache)}${n.readers?.length ?? 0}`).join("|");
  const drawn = useMemo(() => scene(plan, props.hidden), [shape, props.hidden]);
  const layout = useLayout(drawn);
  const waits = waiting(plan);
  const values = new Map(plan.nodes.map((n) => [n.id, measure(n, found.get(n.id), lately.get(n.id), props.metric, waits)]));
  const largest = Math.max(1e-12, ...values.values());
  const nodes = new Map(plan.nodes.map((n) => [n.id, n]));
  const between = new Map(edges(plan, props.hidden).map((e) => [`queue from ${e.source} to ${e.target}`, e.waiting]));
  const sizes = useMemo(() => new Map(drawn.items.map((i) => [i.id, i])), [drawn]);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => bringIntoSight(frame.current, props.selected), [props.selected, layout]);
  return (
    <div ref={frame} class="graph" role="group" aria-label={props.label} data-layout={layout.by}>
      <svg viewBox={`0 0 ${layout.width} ${layout.height}`} style={{ width: `${layout.width}px`, minWidth: `calc(var(--least-scale) * ${layout.width}px)` }}>
        {drawn.links.map((l) => (
          <Line key={l.id} link={l} layout={layout} sizes={sizes} rate={l.rated ? flow(props.samples, props.index, nodes, l.from, l.to, found) : null} />
        ))}
        {drawn.items.map((i) => {
          const at = layout.places.get(i.id);
          const n = nodes.get(i.of);
          if (!at || !n) return null;
          if (i.kind === "operator" || i.kind === "source") {
            const value = values.get(i.id) ?? 0;
            return <Box key={i.id} item={i} node={n} at={at} heat={value / largest} text={isSource(n) ? "" : said(value, props.metric, found.size > 0)} selected={props.selected === i.id} select={props.select} />;
          }
          return <Small key={i.id} item={i} node={n} at={at} waiting={between.get(i.id) ?? 0} />;
        })}
      </svg>
    </div>
  );
}

/** Scroll within the drawing, not the page, so that the chosen operator is seen. */
function bringIntoSight(frame: HTMLDivElement | null, id: string | null): void {
  const box = [...(frame?.querySelectorAll<SVGGElement>("[data-node]") ?? [])].find((b) => b.dataset["node"] === id);
  if (!frame || !box) return;
  const [outer, inner] = [frame.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.left < outer.left || inner.right > outer.right) frame.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
  if (inner.top < outer.top || inner.bottom > outer.bottom) frame.scrollTop += (inner.top + inner.bottom - outer.top - outer.bottom) / 2;
}

/** Rows a second on an edge; null where nobody counts them. */
function flow(samples: Sample[], index: number, nodes: Map<string, PlanNode>, source: string, target: string, found: Map<string, Rate>): number | null {
  const now = samples[index]!.plan;
  const node = nodes.get(source);
  const made = found.get(source);
  if (!node || !made) return null;
  if (!isSource(node)) return made.rowsOut;
  if ((nodes.get(target)?.inputs.length ?? 0) < 2) return found.get(target)?.rowsIn ?? null;
  const name = sourceName(node);
  const then = samples[Math.max(0, index - 4)]!;
  const [arrived, before] = [now, then.plan].map((p) => p.inputs?.[name]?.["arrived"] as number | undefined);
  const seconds = samples[index]!.at - then.at;
  return arrived === undefined || before === undefined || seconds <= 0 ? null : (arrived - before) / seconds;
}

interface LineProps {
  link: Link;
  layout: Layout;
  sizes: Map<string, Item>;
  rate: number | null;
}

const Line = memo(
  drawLine,
  (p: LineProps) => [rateText(p.rate), stroke(p.rate)],
  (p: LineProps) => [p.link, p.layout, p.sizes],
);

const rateText = (rate: number | null): string => (rate === null ? "" : `${amount(rate)}/s`);
const stroke = (rate: number | null): string => `${(1 + Math.min(5, Math.log10(1 + (rate ?? 0)))).toFixed(1)}px`;

function drawLine(props: LineProps) {
  const { link, layout, sizes } = props;
  const [a, b] = [layout.places.get(link.source), layout.places.get(link.target)];
  const [from, to] = [sizes.get(link.source), sizes.get(link.target)];
  if (!a || !b || !from || !to) return null;
  if (link.kind === "keeps") return <path class="keeps" d={`M${a.x + 8} ${a.y + from.height} V${b.y + to.height / 2} H${b.x}`} />;
  const start = { x: a.x + from.width, y: a.y + from.height / 2 };
  const end = { x: b.x, y: b.y + to.height / 2 };
  const route: Point[] = layout.routes.get(link.id) ?? [start, end];
  const first = route[0]!;
  const second = route[1] ?? first;
  const last = route[route.length - 1]!;
  const tip = to.kind !== "queue";
  // The rate stands above the queue that it fills; without a queue, above the line.
  const label = tip ? { x: (first.x + second.x) / 2, y: first.y - 7 } : { x: b.x + to.width / 2, y: b.y - 5 };
  const path = route.map((p, i) => `${i ? "L" : "M"}${i === route.length - 1 && tip ? p.x - 5 : p.x} ${p.y}`).join(" ");
  return (
    <g class="edge">
      <path d={path} style={{ strokeWidth: stroke(props.rate) }} />
      {tip && <path class="tip" d={`M${last.x - 8} ${last.y - 5} L${last.x} ${last.y} L${last.x - 8} ${last.y + 5} Z`} />}
      {link.rated && (
        <text x={label.x} y={label.y} text-anchor="middle">
          {rateText(props.rate)}
        </text>
      )}
    </g>
  );
}

interface SmallProps {
  item: Item;
  node: PlanNode;
  at: Point;
  waiting: number;
}

const Small = memo(
  drawSmall,
  (p: SmallProps) => [p.node.kept, p.node.readers, p.waiting],
  (p: SmallProps) => [p.item, p.at],
);

function drawSmall(props: SmallProps) {
  const { item, node } = props;
  const text =
    item.kind === "queue"
      ? `≡ ${amount(props.waiting)}`
      : item.kind === "synopsis"
        ? `▤ ${amount(node.kept?.rows)} rows, ${amount(node.kept?.bytes, "B")}`
        : `${item.kind === "cache" ? "◫" : "⇉"} ${clip(item.label, 20)}`;
  const told = item.kind === "queue" ? `queue ${item.label}: ${props.waiting} rows wait` : item.kind === "synopsis" ? `synopsis: ${node.kept?.what ?? ""}` : item.kind === "cache" ? `cache in use: ${item.label}` : `read by ${node.readers?.join(", ")}`;
  return (
    <g class={`${item.kind} ${item.kind === "queue" && !props.waiting ? "empty" : ""}`} transform={`translate(${props.at.x} ${props.at.y})`} role="img" aria-label={told}>
      <rect width={item.width} height={item.height} rx={item.kind === "queue" ? 3 : 11} />
      <text x={item.width / 2} y={item.height / 2 + 4} text-anchor="middle">
        {text}
      </text>
      <title>{told}</title>
    </g>
  );
}

/** Left leads to the first input of an operator, right to what reads it. */
function move(e: KeyboardEvent, n: PlanNode): void {
  const graph = (e.currentTarget as Element).closest("svg")!;
  const boxes = [...graph.querySelectorAll<SVGGElement>("[data-node]")];
  const wanted = e.key === "ArrowLeft" ? boxes.find((b) => n.inputs.includes(b.dataset["node"]!)) : boxes.find((b) => b.dataset["inputs"]!.split("\n").includes(n.id));
  if (wanted) {
    e.preventDefault();
    wanted.focus();
  }
}

interface BoxProps {
  item: Item;
  node: PlanNode;
  at: Point;
  heat: number;
  text: string;
  selected: boolean;
  select: (id: string) => void;
}

const Box = memo(
  drawBox,
  (p: BoxProps) => [nowText(p.node), p.node.strategy, heat(p), p.text],
  (p: BoxProps) => [p.item, p.at, p.selected],
);

/** The width of the bar that shows the metric, in whole pixels. */
const heat = (p: BoxProps): number => Math.round(Math.max(0, (p.item.width - 8) * p.heat));

function drawBox(props: BoxProps) {
  const { node: n, item } = props;
  const text = nowText(n);
  const press = (e: KeyboardEvent): void => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      props.select(n.id);
    } else if (e.key === "ArrowLeft" || e.key === "ArrowRight") move(e, n);
  };
  return (
    <g class={`node ${isSource(n) ? "source" : ""} ${props.selected ? "selected" : ""}`} transform={`translate(${props.at.x} ${props.at.y})`} tabindex={0} role="button" data-node={n.id} data-inputs={n.inputs.join("\n")} aria-label={`${n.id}. ${text}. ${props.text}`} aria-pressed={props.selected} onClick={() => props.select(n.id)} onKeyDown={press}>
      <rect width={item.width} height={item.height} rx="6" />
      <rect class="heat" x="4" y={item.height - 9} width={heat(props)} height="5" rx="2" />
      <text x="10" y="19" class="title">
        {clip(n.id.replace(/ \(.*\)$/, ""), 21)}
        {n.strategy ? " ⟳" : ""}
      </text>
      <text x="10" y="34" class="small">
        {clip(text || n.id.replace(/^[^(]*/, ""), 25)}
      </text>
      <text x="10" y="49" class="small">
        {props.text}
      </text>
      <title>{`${n.id}\n${text}`}</title>
    </g>
  );
}

const clip = (text: string, most: number): string => (text.length > most ? text.slice(0, most - 1) + "…" : text);
