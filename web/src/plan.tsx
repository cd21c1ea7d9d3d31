// The plan: a graph with live rates, coloured by a metric, with a table beside it and the text of the query below.

import { useMemo, useState } from "preact/hooks";
import type { Plan, PlanNode, Sample } from "./api";
import { rates, type Rate } from "./history";
import { BOX, edges, layout } from "./layout";
import { NodePanel } from "./node";
import { amount, duration } from "./words";

const METRICS = {
  time: "time: seconds of work in a second",
  rate: "rate: rows a second",
  selectivity: "selectivity: rows out for a row in",
  memory: "memory: bytes kept",
  queue: "queue: rows that wait",
} as const;
type Metric = keyof typeof METRICS;

const SOURCES = new Set(["stream", "relation"]);
const CHEAP = new Set(["project", "i-stream", "d-stream", "changes"]);

function waiting(plan: Plan, id: string): number {
  return plan.edges.filter((e) => e.target === id).reduce((sum, e) => sum + (e.waiting ?? 0), 0);
}

export function measure(plan: Plan, n: PlanNode, rate: Rate | undefined, metric: Metric): number {
  switch (metric) {
    case "time":
      return rate?.busy ?? 0;
    case "rate":
      return rate?.rowsIn ?? 0;
    case "selectivity": {
      const rows = n.statistics["elements_in"] ?? 0;
      return rows ? (n.statistics["elements_out"] ?? 0) / rows : 0;
    }
    case "memory":
      return n.kept?.bytes ?? 0;
    case "queue":
      return waiting(plan, n.id);
  }
}

function said(value: number, metric: Metric): string {
  if (metric === "time") return `${(100 * value).toFixed(1)} % busy`;
  if (metric === "rate") return amount(value, "rows/s");
  if (metric === "memory") return amount(value, "B");
  if (metric === "queue") return amount(value, "rows wait");
  return `${value.toFixed(3)} out of 1`;
}

export function PlanView(props: { samples: Sample[]; index: number; replay: boolean; changed: () => void }) {
  const [metric, setMetric] = useState<Metric>("time");
  const [selected, select] = useState<string | null>(null);
  const [cheap, showCheap] = useState(true);
  const sample = props.samples[props.index];
  const plan = sample?.plan;
  const found = useMemo(() => rates(props.samples, props.index), [sample]);
  const hidden = useMemo(
    () => new Set(cheap || !plan ? [] : plan.nodes.filter((n) => CHEAP.has(n.kind) && n.id !== plan.root).map((n) => n.id)),
    [cheap, plan?.nodes.length, plan?.query],
  );
  const shape = plan?.nodes.map((n) => n.id + n.inputs.join()).join("|");
  const placed = useMemo(() => (plan ? layout(plan, hidden) : null), [shape, hidden]);
  if (!plan || !placed) return <p class="hint">Waiting for the first sample …</p>;
  const values = new Map(plan.nodes.map((n) => [n.id, measure(plan, n, found.get(n.id), metric)]));
  const largest = Math.max(1e-12, ...values.values());
  const node = plan.nodes.find((n) => n.id === selected) ?? null;
  return (
    <section class="plan">
      <div class="bar">
        <label>
          Colour by{" "}
          <select id="metric" value={metric} onChange={(e) => setMetric(e.currentTarget.value as Metric)}>
            {Object.entries(METRICS).map(([key, text]) => (
              <option value={key}>{text}</option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={!cheap} onChange={(e) => showCheap(!e.currentTarget.checked)} /> hide cheap operators
        </label>
        {plan.pinned && <span class="badge">pinned</span>}
        {plan.shared.length > 0 && (
          <span class="badge">
            {plan.shared.length} shared store{plan.shared.length > 1 ? "s" : ""}
          </span>
        )}
      </div>
      <div class="columns">
        <div>
        <div class="graph" role="group" aria-label="plan of the query">
          <svg viewBox={`0 0 ${placed.width} ${placed.height}`} style={{ width: `${placed.width}px`, minWidth: `${0.7 * placed.width}px` }}>
            {edges(plan, hidden).map((e) => (
              <Edge key={`${e.source} ${e.target}`} from={placed.nodes.get(e.source)!} to={placed.nodes.get(e.target)!} waiting={e.waiting} rate={flow(props.samples, props.index, e.source, e.target, found)} />
            ))}
            {[...placed.nodes.values()].map((p) => {
              const n = plan.nodes.find((x) => x.id === p.id)!;
              const value = values.get(p.id) ?? 0;
              return <Box key={p.id} node={n} x={p.x} y={p.y} heat={value / largest} text={SOURCES.has(n.kind) ? "" : said(value, metric)} selected={selected === p.id} select={() => select(p.id)} />;
            })}
          </svg>
        </div>
        <QueryText plan={plan} selected={node} select={select} />
        <div class="scroll">
        <table id="operators">
          <thead>
            <tr>
              <th>operator</th>
              <th class="number">rows/s in</th>
              <th class="number">rows/s out</th>
              <th class="number">selectivity</th>
              <th class="number">busy</th>
              <th class="number">a row</th>
              <th class="number">keeps</th>
              <th class="number">waits</th>
            </tr>
          </thead>
          <tbody>
            {plan.nodes
              .filter((n) => !SOURCES.has(n.kind))
              .map((n) => {
                const r = found.get(n.id);
                const rows = n.statistics["elements_in"] ?? 0;
                return (
                  <tr class={selected === n.id ? "selected" : ""} onClick={() => select(n.id)}>
                    <td>
                      <button class="link" onClick={() => select(n.id)}>
                        {n.id}
                      </button>
                    </td>
                    <td class="number">{amount(r?.rowsIn)}</td>
                    <td class="number">{amount(r?.rowsOut)}</td>
                    <td class="number">{rows ? ((n.statistics["elements_out"] ?? 0) / rows).toFixed(3) : "–"}</td>
                    <td class="number">{r ? `${(100 * r.busy).toFixed(1)} %` : "–"}</td>
                    <td class="number">{rows ? duration((n.statistics["seconds"] ?? 0) / rows) : "–"}</td>
                    <td class="number">{n.kept ? `${amount(n.kept.rows)} rows, ${amount(n.kept.bytes, "B")}` : "–"}</td>
                    <td class="number">{amount(waiting(plan, n.id))}</td>
                  </tr>
                );
              })}
          </tbody>
        </table>
        </div>
        </div>
        <NodePanel plan={plan} node={node} rate={node ? found.get(node.id) : undefined} replay={props.replay} changed={props.changed} />
      </div>
    </section>
  );
}

/** Rows a second on an edge; null where nobody counts them. */
function flow(samples: Sample[], index: number, source: string, target: string, found: Map<string, Rate>): number | null {
  const now = samples[index]!.plan;
  const node = now.nodes.find((n) => n.id === source);
  const made = found.get(source);
  if (!node || !made) return null;
  if (!SOURCES.has(node.kind)) return made.rowsOut;
  if ((now.nodes.find((n) => n.id === target)?.inputs.length ?? 0) < 2) return found.get(target)?.rowsIn ?? null;
  const name = node.id.replace(/^\w+ /, "").split(/ \(| AS /)[0]!;
  const then = samples[Math.max(0, index - 4)]!;
  const [arrived, before] = [now.inputs?.[name]?.["arrived"], then.plan.inputs?.[name]?.["arrived"]];
  const seconds = samples[index]!.at - then.at;
  return arrived === undefined || before === undefined || seconds <= 0 ? null : (arrived - before) / seconds;
}

function Edge(props: { from: { x: number; y: number }; to: { x: number; y: number }; waiting: number; rate: number | null }) {
  const x1 = props.from.x + BOX.width;
  const y1 = props.from.y + BOX.height / 2;
  const x2 = props.to.x;
  const y2 = props.to.y + BOX.height / 2;
  const middle = (x1 + x2) / 2;
  return (
    <g class="edge">
      <path d={`M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2 - 5} ${y2}`} style={{ strokeWidth: `${1 + Math.min(5, Math.log10(1 + (props.rate ?? 0)))}px` }} />
      <path class="tip" d={`M${x2 - 8} ${y2 - 5} L${x2} ${y2} L${x2 - 8} ${y2 + 5} Z`} />
      <text x={middle} y={(y1 + y2) / 2 - 7} text-anchor="middle">
        {props.rate === null ? "" : `${amount(props.rate)}/s`}
      </text>
      {props.waiting > 0 && (
        <g class="queue">
          <rect x={middle - 22} y={(y1 + y2) / 2 + 4} width="44" height="16" rx="3" />
          <text x={middle} y={(y1 + y2) / 2 + 16} text-anchor="middle">
            ≡ {amount(props.waiting)}
          </text>
        </g>
      )}
    </g>
  );
}

function Box(props: { node: PlanNode; x: number; y: number; heat: number; text: string; selected: boolean; select: () => void }) {
  const { node: n } = props;
  const caches = Array.isArray(n.knows["caches"]) ? (n.knows["caches"] as { state?: string }[]).filter((c) => c.state === "used").length : 0;
  const press = (e: KeyboardEvent): void => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      props.select();
    }
  };
  return (
    <g class={`node ${SOURCES.has(n.kind) ? "source" : ""} ${n.readers && n.readers.length > 1 ? "shared" : ""} ${props.selected ? "selected" : ""}`} transform={`translate(${props.x} ${props.y})`} tabindex={0} role="button" aria-label={`${n.id}. ${n.text}. ${props.text}`} aria-pressed={props.selected} onClick={props.select} onKeyDown={press}>
      <rect width={BOX.width} height={BOX.height} rx="6" />
      <rect class="heat" x="4" y={BOX.height - 9} width={Math.max(0, (BOX.width - 8) * props.heat)} height="5" rx="2" />
      <text x="10" y="19" class="title">
        {clip(n.id.replace(/ \(.*\)$/, ""), 24)}
        {n.strategy ? " ⟳" : ""}
        {n.readers && n.readers.length > 1 ? ` ⇉ ${n.readers.length}` : ""}
      </text>
      <text x="10" y="35" class="small">
        {clip(n.text || n.id.replace(/^[^(]*/, ""), 30)}
      </text>
      <text x="10" y="51" class="small">
        {props.text}
      </text>
      {n.kept && (
        <text x={BOX.width - 8} y="51" class="small" text-anchor="end">
          ▤ {amount(n.kept.rows)}
          {caches ? ` ◫ ${caches}` : ""}
        </text>
      )}
      <title>{`${n.id}\n${n.text}\n${n.kept?.what ?? ""}`}</title>
    </g>
  );
}

const clip = (text: string, most: number): string => (text.length > most ? text.slice(0, most - 1) + "…" : text);

/** The query with the piece of the selected operator marked; a piece that an operator evaluates leads back to it. */
function QueryText(props: { plan: Plan; selected: PlanNode | null; select: (id: string) => void }) {
  const { text } = props.plan;
  const pieces = useMemo(() => marks(props.plan), [text, props.plan.nodes.length]);
  return (
    <pre class="cql" aria-label="text of the query">
      {pieces.map((p) =>
        p.node ? (
          <button class={`piece ${props.selected?.id === p.node ? "marked" : ""}`} onClick={() => props.select(p.node!)} title={p.node}>
            {p.text}
          </button>
        ) : (
          p.text
        ),
      )}
    </pre>
  );
}

export function marks(plan: Plan): { text: string; node?: string }[] {
  const lower = plan.text.toLowerCase();
  const found: { start: number; end: number; node: string }[] = [];
  for (const n of plan.nodes) {
    const wanted = SOURCES.has(n.kind) ? [n.id.replace(/^\w+ /, "").split(/ \(| AS /)[0]!] : n.text.split(" AND ");
    for (const piece of wanted) {
      const bare = piece.replace(/\b\w+\./g, "").toLowerCase();
      for (const candidate of [piece.toLowerCase(), bare]) {
        const at = candidate.length > 1 ? lower.indexOf(candidate, SOURCES.has(n.kind) ? Math.max(0, lower.indexOf("from")) : 0) : -1;
        if (at >= 0 && !found.some((f) => at < f.end && at + candidate.length > f.start)) {
          found.push({ start: at, end: at + candidate.length, node: n.id });
          break;
        }
      }
    }
  }
  found.sort((a, b) => a.start - b.start);
  const out: { text: string; node?: string }[] = [];
  let at = 0;
  for (const f of found) {
    out.push({ text: plan.text.slice(at, f.start) }, { text: plan.text.slice(f.start, f.end), node: f.node });
    at = f.end;
  }
  out.push({ text: plan.text.slice(at) });
  return out;
}
