// The drawing of a plan: boxes for operators, and smaller ones for queues, synopses, caches and sharing.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Plan, PlanNode, Sample } from "./api";
import { rates, ratios, type Rate, type Ratio } from "./history";
import { useLayout, type Layout, type Point } from "./layout";
import { memo, useSight, within } from "./memo";
import { caches, edges, isSource, linesOf, nowText, scene, sourceName, titleOf, type Item, type Link } from "./scene";
import { amount, clipped, duration } from "./words";

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
  const shape = plan.nodes.map((n) => `${n.id}${n.text}<${n.inputs.join()}${n.kept ? "k" : ""}${caches(n).map((c) => c.cache)}${n.readers?.length ?? 0}`).join("|");
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
  const sight = useSight(frame, layout.width);
  const boxes = drawn.items.filter((i) => i.kind === "operator" || i.kind === "source");
  const small = drawn.items.filter((i) => i.kind !== "operator" && i.kind !== "source");
  // Two drawings, one upon the other: what stays, and what changes with each sample. Only the upper one, and of it what is
  // in sight, is painted ten times a second.
  const view = `0 0 ${layout.width} ${layout.height}`;
  return (
    <div ref={frame} class="graph" role="group" aria-label={props.label} data-layout={layout.by}>
      <div class="drawing" style={{ width: `${layout.width}px`, minWidth: `calc(var(--least-scale) * ${layout.width}px)` }}>
        <svg viewBox={view}>
          {drawn.links.map((l) => (
            <Line key={l.id} link={l} layout={layout} sizes={sizes} inSight rate={l.rated ? flow(props.samples, props.index, nodes, l.from, l.to, found) : null} />
          ))}
          {boxes.map((i) => {
            const [at, n] = [layout.places.get(i.id), nodes.get(i.of)];
            return at && n && <Box key={i.id} item={i} node={n} at={at} inSight={within(sight, at, i)} heat={(values.get(i.id) ?? 0) / largest} selected={props.selected === i.id} select={props.select} />;
          })}
          {small.map((i) => {
            const [at, n] = [layout.places.get(i.id), nodes.get(i.of)];
            return at && n && <Small key={i.id} item={i} node={n} at={at} inSight={within(sight, at, i)} waiting={between.get(i.id) ?? 0} />;
          })}
        </svg>
        <svg class="live" viewBox={view} aria-hidden="true">
          {drawn.links.map((l) => {
            const at = l.rated && labelPlace(l, layout, sizes);
            return at && within(sight, at, NOTHING) && <Text key={l.id} x={at.x} y={at.y} middle text={rateText(flow(props.samples, props.index, nodes, l.from, l.to, found))} inSight />;
          })}
          {boxes.map((i) => {
            const [at, n] = [layout.places.get(i.id), nodes.get(i.of)];
            if (!at || !n || isSource(n) || !within(sight, at, i)) return null;
            const value = values.get(i.id) ?? 0;
            return <MetricOf key={i.id} item={i} at={at} heat={value / largest} text={said(value, props.metric, found.size > 0)} inSight />;
          })}
          {small.map((i) => {
            const [at, n] = [layout.places.get(i.id), nodes.get(i.of)];
            if (!at || !n || !within(sight, at, i)) return null;
            return <Text key={i.id} x={at.x + i.width / 2} y={at.y + i.height / 2 + 4} middle text={smallText(i, n, between.get(i.id) ?? 0)} inSight />;
          })}
        </svg>
      </div>
    </div>
  );
}

const NOTHING = { width: 0, height: 0 };

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

interface TextProps {
  x: number;
  y: number;
  text: string;
  middle?: boolean;
  inSight: boolean;
}

const Text = memo(
  (p: TextProps) => (
    <text x={p.x} y={p.y} text-anchor={p.middle ? "middle" : undefined}>
      {p.text}
    </text>
  ),
  (p: TextProps) => [p.text],
  (p: TextProps) => [p.x, p.y],
);

interface LineProps {
  link: Link;
  layout: Layout;
  sizes: Map<string, Item>;
  rate: number | null;
  inSight: boolean;
}

const Line = memo(
  drawLine,
  (p: LineProps) => [stroke(p.rate)],
  (p: LineProps) => [p.link, p.layout, p.sizes],
);

/** Where the rate of a link stands: above the queue that it fills; without a queue, above the line. */
function labelPlace(link: Link, layout: Layout, sizes: Map<string, Item>): Point | null {
  const [a, b] = [layout.places.get(link.source), layout.places.get(link.target)];
  const [from, to] = [sizes.get(link.source), sizes.get(link.target)];
  if (!a || !b || !from || !to) return null;
  if (to.kind === "queue") return { x: b.x + to.width / 2, y: b.y - 5 };
  const route = layout.routes.get(link.id);
  const first = route?.[0] ?? { x: a.x + from.width, y: a.y + from.height / 2 };
  return { x: (first.x + (route?.[1]?.x ?? b.x)) / 2, y: first.y - 7 };
}

const rateText = (rate: number | null): string => (rate === null ? "" : `${amount(rate)}/s`);
const stroke = (rate: number | null): string => `${(Math.round(2 * (1 + Math.min(5, Math.log10(1 + (rate ?? 0))))) / 2).toFixed(1)}px`;

function drawLine(props: LineProps) {
  const { link, layout, sizes } = props;
  const [a, b] = [layout.places.get(link.source), layout.places.get(link.target)];
  const [from, to] = [sizes.get(link.source), sizes.get(link.target)];
  if (!a || !b || !from || !to) return null;
  if (link.kind === "keeps") return <path class="keeps" d={`M${a.x + 8} ${a.y + from.height} V${b.y + to.height / 2} H${b.x}`} />;
  const start = { x: a.x + from.width, y: a.y + from.height / 2 };
  const end = { x: b.x, y: b.y + to.height / 2 };
  const route: Point[] = layout.routes.get(link.id) ?? [start, end];
  const last = route[route.length - 1]!;
  const tip = to.kind !== "queue";
  const path = route.map((p, i) => `${i ? "L" : "M"}${i === route.length - 1 && tip ? p.x - 5 : p.x} ${p.y}`).join(" ");
  return (
    <g class="edge">
      <path d={path} style={{ strokeWidth: stroke(props.rate) }} />
      {tip && <path class="tip" d={`M${last.x - 8} ${last.y - 5} L${last.x} ${last.y} L${last.x - 8} ${last.y + 5} Z`} />}
    </g>
  );
}

interface SmallProps {
  item: Item;
  node: PlanNode;
  at: Point;
  waiting: number;
  inSight: boolean;
}

const Small = memo(
  drawSmall,
  (p: SmallProps) => [smallSaid(p), p.waiting > 0],
  (p: SmallProps) => [p.item, p.at],
);

/** What is written upon it. */
function smallText(item: Item, node: PlanNode, waiting: number): string {
  if (item.kind === "queue") return `≡ ${amount(waiting)}`;
  if (item.kind === "synopsis") return `▤ ${amount(node.kept?.rows)} rows, ${amount(node.kept?.bytes, "B")}`;
  return `${item.kind === "cache" ? "◫" : "⇉"} ${clipped(item.label, item.width - 34, "text")}`;
}

/** What it is; of a queue whether rows wait: how many is written upon it. */
function smallSaid({ item, node, waiting }: SmallProps): string {
  if (item.kind === "queue") return `queue ${item.label}: ${waiting ? "" : "no "}rows wait`;
  if (item.kind === "synopsis") return `synopsis: ${node.kept?.what ?? ""}`;
  return item.kind === "cache" ? `cache in use: ${item.label}` : `read by ${node.readers?.join(", ")}`;
}

function drawSmall(props: SmallProps) {
  const { item } = props;
  const told = smallSaid(props);
  return (
    <g class={`${item.kind} ${item.kind === "queue" && !props.waiting ? "empty" : ""}`} transform={`translate(${props.at.x} ${props.at.y})`} role="img" aria-label={told}>
      <rect width={item.width} height={item.height} rx={item.kind === "queue" ? 3 : 11} />
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
  selected: boolean;
  select: (id: string) => void;
  inSight: boolean;
}

const Box = memo(
  drawBox,
  (p: BoxProps) => [nowText(p.node), p.node.strategy, shade(p.heat)],
  (p: BoxProps) => [p.item, p.at, p.selected],
);

const SHADES = 5;
/** The ground of a box shows the metric in few steps; the bar shows it exactly. */
const shade = (heat: number): number => Math.round(SHADES * Math.min(1, Math.max(0, heat)));

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
    <g class={`node ${isSource(n) ? "source" : `shade-${shade(props.heat)}`} ${props.selected ? "selected" : ""}`} transform={`translate(${props.at.x} ${props.at.y})`} tabindex={0} role="button" data-node={n.id} data-inputs={n.inputs.join("\n")} aria-label={`${n.id}. ${text}`} aria-pressed={props.selected} onClick={() => props.select(n.id)} onKeyDown={press}>
      <rect width={item.width} height={item.height} rx="6" />
      <text x="10" y="19" class="title">
        {clipped(titleOf(n), item.width - 18, "title")}
      </text>
      {linesOf(n).map((line, i) => (
        <text x="10" y={34 + 15 * i}>{clipped(line, item.width - 18, "text")}</text>
      ))}
      <title>{`${n.id}\n${text}`}</title>
    </g>
  );
}

interface MetricProps {
  item: Item;
  at: Point;
  heat: number;
  text: string;
  inSight: boolean;
}

const MetricOf = memo(
  drawMetric,
  (p: MetricProps) => [p.text, bar(p)],
  (p: MetricProps) => [p.item, p.at],
);

/** The width of the bar that shows the metric, in whole units. */
const bar = (p: MetricProps): number => Math.round(Math.max(0, (p.item.width - 8) * p.heat));

function drawMetric(props: MetricProps) {
  const { item, at } = props;
  return (
    <g class="metric" data-of={item.id} transform={`translate(${at.x} ${at.y})`}>
      <text x="10" y={item.height - 13}>{props.text}</text>
      <rect class="heat" x="4" y={item.height - 9} width={bar(props)} height="5" rx="2" />
    </g>
  );
}
