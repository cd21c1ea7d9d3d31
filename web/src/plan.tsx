// The plan: a graph with live rates, coloured by a metric, with a table beside it and the text of the query below.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Plan, PlanNode, Sample } from "./api";
import { METRICS, PlanGraph, waiting, type Metric } from "./graph";
import { rates, ratios, type Rate, type Ratio } from "./history";
import { memo, useInSight } from "./memo";
import { NodePanel } from "./node";
import { ASIDES, type Aside } from "./queries";
import { cheap, isSource, sourceName } from "./scene";
import { ShardsView } from "./shards";
import { amount, duration } from "./words";

const NONE = new Set<string>();
const MOST_IN_SIGHT = 40; // operators of a plan that stays while the page is scrolled; a larger one would leave no room
const LATELY = "of the last ten seconds; since the start where no rows came in them";

export function PlanView(props: { samples: Sample[]; index: number; replay: boolean; why: string; aside: Aside; changed: () => void; children?: ComponentChildren }) {
  const [metric, setMetric] = useState<Metric>("time");
  const [selected, select] = useState<string | null>(null);
  const [hide, setHide] = useState(false);
  const sample = props.samples[props.index];
  const plan = sample?.plan;
  const found = useMemo(() => rates(props.samples, props.index), [sample]);
  const lately = useMemo(() => ratios(props.samples, props.index), [sample]);
  const hidden = useMemo(() => (hide && plan ? cheap(plan) : NONE), [hide, plan?.nodes.length, plan?.query]);
  if (!plan) return <p class="hint">{props.why || "Waiting for the first sample …"}</p>;
  const waits = waiting(plan);
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
          <input type="checkbox" id="hide-cheap" checked={hide} onChange={(e) => setHide(e.currentTarget.checked)} /> hide cheap operators
        </label>
        {plan.pinned && <span class="badge">pinned</span>}
        {plan.shared.length > 0 && (
          <span class="badge">
            {plan.shared.length} shared store{plan.shared.length > 1 ? "s" : ""}
          </span>
        )}
        {ASIDES.filter((which) => props.aside[which]).map((which) => (
          <a class="badge" href={`#/queries/${encodeURIComponent(plan.query)}/${which}`} title={`see the last ${which} rows`}>
            {amount(props.aside[which])} {which}
          </a>
        ))}
        <span class="small">≡ queue ▤ synopsis ◫ cache ⇉ sharing ⟳ adapts</span>
      </div>
      <div class={plan.nodes.length <= MOST_IN_SIGHT ? "in-sight" : ""}>
        <PlanGraph samples={props.samples} index={props.index} metric={metric} hidden={hidden} selected={selected} select={select} label="plan of the query" />
      </div>
      <div class="columns">
        <div>
          <QueryText plan={plan} selected={node} select={select} />
          <ShardsView samples={props.samples} index={props.index} />
          <div class="scroll" tabindex={0} role="region" aria-label="operators">
            <table id="operators">
              <thead>
                <tr>
                  <th>operator</th>
                  <th class="number">rows/s in</th>
                  <th class="number">rows/s out</th>
                  <th class="number" title={LATELY}>selectivity</th>
                  <th class="number">busy</th>
                  <th class="number" title={LATELY}>time per row</th>
                  <th class="number">state</th>
                  <th class="number">rows waiting</th>
                </tr>
              </thead>
              {chunks(plan.nodes.filter((n) => !isSource(n))).map((nodes, i) => (
                <Rows key={i} nodes={nodes} rates={found} ratios={lately} waits={waits} selected={selected} select={select} />
              ))}
            </table>
          </div>
        </div>
        <NodePanel plan={plan} node={node} rate={node ? found.get(node.id) : undefined} replay={props.replay} changed={props.changed} />
        <div class="below">{props.children}</div>
      </div>
    </section>
  );
}

const CHUNK = 20; // rows of the table that come into sight together
const chunks = (nodes: PlanNode[]): PlanNode[][] => Array.from({ length: Math.ceil(nodes.length / CHUNK) }, (_, i) => nodes.slice(CHUNK * i, CHUNK * (i + 1)));

function Rows(props: { nodes: PlanNode[]; rates: Map<string, Rate>; ratios: Map<string, Ratio>; waits: Map<string, number>; selected: string | null; select: (id: string) => void }) {
  const [body, inSight] = useInSight<HTMLTableSectionElement>();
  return (
    <tbody ref={body}>
      {props.nodes.map((n) => (
        <Row key={n.id} node={n} rate={props.rates.get(n.id)} ratio={props.ratios.get(n.id)} waits={props.waits.get(n.id) ?? 0} selected={props.selected === n.id} select={props.select} inSight={inSight} />
      ))}
    </tbody>
  );
}

interface RowProps {
  node: PlanNode;
  rate: Rate | undefined;
  ratio: Ratio | undefined;
  waits: number;
  selected: boolean;
  select: (id: string) => void;
  inSight: boolean;
}

const Row = memo(
  drawRow,
  (p: RowProps) => cells(p),
  (p: RowProps) => [p.node.id, p.selected],
);

/** What is written into the columns behind the first. */
function cells({ node: n, rate: r, ratio, waits }: RowProps): string[] {
  return [
    amount(r?.rowsIn),
    amount(r?.rowsOut),
    ratio ? ratio.selectivity.toFixed(3) : "–",
    r ? `${(100 * r.busy).toFixed(1)} %` : "–",
    ratio ? duration(ratio.seconds) : "–",
    n.kept ? `${amount(n.kept.rows)} rows, ${amount(n.kept.bytes, "B")}` : "–",
    amount(waits),
  ];
}

function drawRow(props: RowProps) {
  const { node, selected, select } = props;
  return (
    <tr class={selected ? "selected" : ""} onClick={() => select(node.id)}>
      <td>
        <button class="link" onClick={() => select(node.id)}>
          {node.id}
        </button>
      </td>
      {cells(props).map((text) => (
        <td class="number">{text}</td>
      ))}
    </tr>
  );
}

/** The query with the piece of the selected operator marked; a piece that an operator evaluates leads back to it. */
function QueryText(props: { plan: Plan; selected: PlanNode | null; select: (id: string) => void }) {
  const { text } = props.plan;
  const pieces = useMemo(() => marks(props.plan), [text, props.plan.nodes.length]);
  return (
    <pre class="cql" role="group" aria-label="text of the query">
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

/** Where a piece stands in a text, whatever its case and the blanks in it. */
function placeOf(piece: string, text: string, from: number): { start: number; end: number } | null {
  const words = piece.trim().split(/\s+/);
  if (!words[0]) return null;
  const [first, last] = [/^\w/.test(piece) ? "\\b" : "", /\w$/.test(piece) ? "\\b" : ""];
  const written = (w: string): string => w.replace(/[^\w\s]/g, "\\$&").replace(/(\d)\\\.0\b/g, "$1(?:\\.0*)?"); // 20.0 may stand there as 20
  const pattern = words.map(written).join("\\s*");
  const found = new RegExp(first + pattern + last, "i").exec(text.slice(from));
  return found && { start: from + found.index, end: from + found.index + found[0].length };
}

/** Operators that print nothing, by the words that ask for them. */
const WORDS: Record<string, string[]> = { "i-stream": ["Istream"], "d-stream": ["Dstream"], "r-stream": ["Rstream"] };

/** Conjuncts, and items of a list; of what groups, its clause. */
function partsOf(text: string): string[] {
  if (/^by /i.test(text)) return [`group ${text}`];
  return text.split(" AND ").flatMap((part) => [part, ...part.split(/, (?![^(]*\))/)]);
}

export function marks(plan: Plan): { text: string; node?: string }[] {
  const { text } = plan;
  const from = Math.max(0, text.toLowerCase().indexOf("from"));
  const found: { start: number; end: number; node: string }[] = [];
  for (const n of plan.nodes) {
    const wanted = isSource(n) ? [sourceName(n)] : (WORDS[n.kind] ?? partsOf(n.text));
    for (const piece of wanted) {
      for (const candidate of [piece, piece.replace(/\b[a-z_]\w*\./gi, "")]) {
        const place = placeOf(candidate, text, isSource(n) ? from : 0);
        if (place && !found.some((f) => place.start < f.end && place.end > f.start)) {
          found.push({ ...place, node: n.id });
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
