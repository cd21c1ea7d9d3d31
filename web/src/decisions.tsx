// The decision log as a timeline: what was decided when, why, what it promised and what it gained.

import { useMemo, useState } from "preact/hooks";
import { ask, queryPath, type Decision, type Sample } from "./api";
import { Evidence } from "./evidence";
import { PlanGraph } from "./graph";
import { keyOf } from "./history";
import { cheap } from "./scene";
import { amount, clock, gain, shown } from "./words";

const SHOWN = 100; // moments of the timeline
const SHAPES: Record<string, string> = { policy: "●", user: "◆", planner: "■", scheduler: "▲", session: "▬" };

export function DecisionsView(props: { query: string; decisions: Decision[]; samples: Sample[]; pinned: boolean; until?: number; span?: [number, number] | null; replay: boolean; changed: () => void }) {
  const [selected, select] = useState<string | null>(null);
  const [mistake, setMistake] = useState("");
  const all = props.until === undefined ? props.decisions : props.decisions.filter((d) => d.wall / 1e6 <= props.until!);
  const last = all[all.length - 1];
  const chosen = all.find((d) => keyOf(d) === selected) ?? last;
  const send = async (path: string): Promise<void> => {
    try {
      await ask("POST", queryPath(props.query) + path);
      setMistake("");
      props.changed();
    } catch (e) {
      setMistake((e as Error).message);
    }
  };
  // Below graphs the moments stand under those of the graphs; otherwise they fill the line.
  const aligned = props.span ?? null;
  const moments = all.slice(-SHOWN).filter((d) => !aligned || (d.wall / 1e6 >= aligned[0] && d.wall / 1e6 <= aligned[1]));
  const [first, end] = aligned ?? [(all[Math.max(0, all.length - SHOWN)]?.wall ?? 0) / 1e6, (last?.wall ?? 0) / 1e6];
  const span = Math.max(1e-6, end - first);
  return (
    <section class="decisions">
      <div class="bar">
        <strong>
          {all.length > 1 && all[0]!.sequence > 1 ? "the last " : ""}
          {all.length} decision{all.length === 1 ? "" : "s"} of {props.query}
        </strong>
        {!props.replay && <button onClick={() => void send(props.pinned ? "/unpin" : "/pin")}>{props.pinned ? "unpin the plans" : "pin the plans"}</button>}
        {chosen && chosen !== last && <button onClick={() => select(null)}>show the latest</button>}
        {Object.entries(SHAPES).map(([by, shape]) => (
          <span class="small">
            {shape} {by}
          </span>
        ))}
      </div>
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      {all.length === 0 && <p class="hint">Nothing was decided yet.</p>}
      {all.length > 0 && <div class={`timeline ${aligned ? "aligned" : ""}`} role="group" aria-label="decisions in time">
        {moments.map((d) => (
          <button key={keyOf(d)} class={`moment ${d.applied ? "" : "spared"} ${chosen && keyOf(chosen) === keyOf(d) ? "selected" : ""}`} style={{ left: `calc(var(--before) + (100% - var(--before) - var(--after)) * ${(d.wall / 1e6 - first) / span})` }} onClick={() => select(keyOf(d))} title={`${d.sequence}: ${d.kind}, ${d.reason}${inShard(d)}`} aria-label={`decision ${d.sequence}: ${d.kind}${inShard(d)}`}>
            {SHAPES[d.by] ?? "●"}
          </button>
        ))}
      </div>}
      {all.length > 1 && (
        <div class={`ends small ${aligned ? "aligned" : ""}`}>
          <span>{clock(first)}</span>
          <span>{clock(end)}</span>
        </div>
      )}
      {chosen && (
        <article class="decision" onClick={() => select(keyOf(chosen))}>
          <header class="bar">
            <h3>
              {chosen.sequence}: {chosen.kind} <span class="small">
                of {chosen.operator || "the query"}
                {inShard(chosen)}, by the {chosen.by}, {clock(chosen.wall / 1e6)}
              </span>
            </h3>
            {!props.replay && chosen.applied && ["policy", "user"].includes(chosen.by) && (
              <button onClick={() => void send(`/undo/${chosen.sequence}${chosen.shard == null ? "" : `?shard=${chosen.shard}`}`)} aria-label={`undo decision ${chosen.sequence}`}>
                undo
              </button>
            )}
          </header>
          <p>{chosen.reason || "–"}</p>
          {!chosen.applied && <p class="small">Not applied: the query is pinned.</p>}
          <div class="sides">
            <div>
              <h4>before</h4>
              <Value value={chosen.before} names={chosen.names} />
            </div>
            <div>
              <h4>after</h4>
              <Value value={chosen.after} names={chosen.names} />
            </div>
            <div>
              <h4 title="cost before, divided by cost after">gain (above 1: cheaper)</h4>
              <p>
                expected {gain(chosen.expected_gain)}
                <br />
                measured {gain(chosen.measured_gain)}
                {chosen.cost ? (
                  <>
                    <br />
                    the change costs {amount(chosen.cost)} {chosen.units?.["cost"] ?? ""}
                  </>
                ) : null}
              </p>
            </div>
          </div>
          <BeforeAfter decision={chosen} samples={props.samples} />
          <Evidence decision={chosen} />
        </article>
      )}
      {all.length > 0 && <div class="scroll" tabindex={0} role="region" aria-label="all decisions">
        <table id="decision-table">
          <thead>
            <tr>
              <th class="number">no.</th>
              <th>time</th>
              <th>by</th>
              <th>operator</th>
              <th>what</th>
              <th class="number">expected gain</th>
              <th class="number">measured gain</th>
            </tr>
          </thead>
          <tbody>
            {[...all]
              .reverse()
              .slice(0, 50)
              .map((d) => (
                <tr key={keyOf(d)} class={chosen && keyOf(chosen) === keyOf(d) ? "selected" : ""} onClick={() => select(keyOf(d))}>
                  <td class="number">{d.sequence}</td>
                  <td>{clock(d.wall / 1e6)}</td>
                  <td>{d.by}</td>
                  <td>
                    {d.operator}
                    {inShard(d)}
                  </td>
                  <td>{d.applied ? d.kind : `${d.kind} (not applied)`}</td>
                  <td class="number">{gain(d.expected_gain)}</td>
                  <td class="number">{gain(d.measured_gain)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>}
    </section>
  );
}

const inShard = (d: Decision): string => (d.shard == null ? "" : `, shard ${d.shard}`);

/** The plan as it was seen last before a decision, and some seconds after it, side by side. */
function BeforeAfter(props: { decision: Decision; samples: Sample[] }) {
  const at = props.decision.wall / 1e6;
  const { samples } = props;
  const after = samples.findIndex((s) => s.at > at + 2);
  const later = after >= 0 ? after : samples.length - 1;
  const before = samples.findLastIndex((s) => s.at <= at);
  const hidden = useMemo(() => (samples[later] ? cheap(samples[later]!.plan) : new Set<string>()), [samples[later]?.plan.nodes.length]);
  if (props.decision.by === "planner") return <p class="small">The planner chose this before the query ran, so there is no plan from before it.</p>;
  if (before < 0 || later <= before) return <p class="small">There is no sample of the plan from before this decision, or none from after it.</p>;
  return (
    <div class="before-after">
      {([["plan before", before], ["plan after", later]] as const).map(([name, index]) => (
        <div>
          <h4>
            {name} <span class="small">{clock(samples[index]!.at)}</span>
          </h4>
          <PlanGraph samples={samples} index={index} metric="time" hidden={hidden} selected={props.decision.operator} select={() => undefined} label={name} />
          <ul class="stands" aria-label={`${props.decision.operator} in the ${name}`}>
            {stood(samples[index]!, props.decision.operator).map((line) => (
              <li>{line}</li>
            ))}
          </ul>
        </div>
      ))}
    </div>
  );
}

/** How an operator stood when a plan was seen: its order and what was measured of its parts. */
const stood = (sample: Sample, operator: string): string[] => sample.plan.nodes.find((n) => n.id === operator)?.adapts ?? [];

/** An order is a list of filters; numbers stand for their names. */
function Value(props: { value: unknown; names: string[] }) {
  const named = (v: unknown): string => (typeof v === "number" && props.names?.[v] !== undefined ? props.names[v]! : shown(v));
  if (Array.isArray(props.value)) {
    return (
      <ol>
        {props.value.map((v) => (
          <li class="mono">{named(v)}</li>
        ))}
      </ol>
    );
  }
  return <p class="mono">{shown(props.value)}</p>;
}
