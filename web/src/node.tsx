// One operator: its properties with units. What can be changed is edited in place and checked by the server.

import { useEffect, useState } from "preact/hooks";
import { ask, queryPath, words, type Plan, type PlanNode, type Strategies } from "./api";
import type { Rate } from "./history";
import { isSource, sourceName } from "./scene";
import { amount, shown } from "./words";

interface Option {
  choices: string[] | null; // null: any text
  hint?: string;
  joins?: boolean; // of plans with a join only
  read?: (text: string) => unknown; // what is sent for a text
}

const number = (text: string): unknown => (Number.isNaN(Number(text)) ? text : Number(text));

/** Options that name a strategy offer those that the server knows; the others are these. */
const STRATEGIES: Record<string, { joins?: boolean }> = { filters: {}, routing: {}, joins: { joins: true }, caches: { joins: true }, scheduler: {} };
const OPTIONS: Record<string, Option> = {
  priority: { choices: null, hint: "such as 3", read: number },
  memory: { choices: null, hint: "such as 64 MB" },
  strict_order: { choices: ["true", "false"], read: (text) => text === "true" },
};

/** What the server counts of a stream, and how that is called. */
const COUNTED: Record<string, string> = { arrived: "arrived", held: "waiting for the slack", late: "late", invalid: "invalid", shed: "shed" };

export function NodePanel(props: { plan: Plan; node: PlanNode | null; rate: Rate | undefined; replay: boolean; changed: () => void }) {
  const { plan, node } = props;
  const counts = (node && isSource(node) && plan.inputs?.[sourceName(node)]) || {};
  return (
    <aside class="panel" aria-live="polite">
      {node ? (
        <>
          <h3>{node.id}</h3>
          {node.text && <p class="mono">{node.text}</p>}
          <dl>
            {isSource(node) ? (
              Object.entries(COUNTED).map(([key, text]) => counts[key] !== undefined && <Row name={text} value={amount(Number(counts[key]), "rows")} />)
            ) : (
              <>
                <Row name="rows in" value={amount(node.statistics["elements_in"], "rows")} />
                <Row name="rows out" value={amount(node.statistics["elements_out"], "rows")} />
                <Row name="rate" value={amount(props.rate?.rowsIn, "rows/s")} />
              </>
            )}
            {node.kept && <Row name="state" value={`${amount(node.kept.rows, "rows")}, ${amount(node.kept.bytes, "B")}`} />}
            {node.readers && node.readers.length > 0 && <Row name="read by" value={node.readers.join(", ")} />}
            {node.strategy && <Row name="policy" value={node.strategy} />}
            {node.properties.map((p) => (
              <Row name={p.name} value={`${shown(p.value)} ${p.unit}`} />
            ))}
          </dl>
          {node.kept && <p class="small">{node.kept.what}</p>}
          {node.adapts.map((line) => (
            <p class="small">{line}</p>
          ))}
        </>
      ) : (
        <p class="hint">Choose an operator to see its properties.</p>
      )}
      {!props.replay && node && (node.kind === "stream" ? <Slack plan={plan} node={node} changed={props.changed} /> : <Options plan={plan} changed={props.changed} />)}
    </aside>
  );
}

function Row(props: { name: string; value: string }) {
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </>
  );
}

function Options(props: { plan: Plan; changed: () => void }) {
  const { plan } = props;
  const [known, setKnown] = useState<Strategies>({});
  useEffect(() => void words().then((found) => setKnown(found.strategies)), []);
  const joins = plan.nodes.some((n) => n.kind.includes("join"));
  const shownHere = (option: { joins?: boolean }): boolean => joins || !option.joins;
  const send = (name: string, value: unknown): Promise<unknown> => ask("PATCH", queryPath(plan.query), { options: { [name]: value } });
  return (
    <fieldset>
      <legend>options of the query</legend>
      {Object.entries(STRATEGIES)
        .filter(([, option]) => shownHere(option))
        .map(([name]) => (
          <Strategy key={plan.query + name} option={name} plan={plan} known={known[name] ?? {}} send={send} changed={props.changed} />
        ))}
      {Object.entries(OPTIONS)
        .filter(([, option]) => shownHere(option))
        .map(([name, option]) => (
          <Edit key={plan.query + name} name={name} value={shown(plan.options[name] ?? "")} choices={option.choices} hint={option.hint} send={(text) => send(name, text === "" ? null : option.read ? option.read(text) : text)} changed={props.changed} />
        ))}
    </fieldset>
  );
}

interface StrategyProps {
  option: string;
  plan: Plan;
  known: Strategies[string];
  send: (name: string, value: unknown) => Promise<unknown>;
  changed: () => void;
}

/** An option that names a strategy, and below it the strategy's parameters. */
function Strategy(props: StrategyProps) {
  const { option, plan, known, send } = props;
  const { name, given } = named(shown(plan.options[option] ?? ""));
  const parameters = Object.entries(known[name] ?? {});
  const own = (p: string): boolean => plan.options[p] !== undefined && !(p in OPTIONS); // written beside the strategy, not in brackets
  const change = (p: string, text: string): Promise<unknown> => {
    if (own(p)) return send(p, text === "" ? null : number(text));
    const all = Object.entries({ ...given, [p]: text.trim() }).filter(([, value]) => value !== "");
    return send(option, all.length ? `${name}(${all.map(([k, v]) => `${k}=${v}`).join(", ")})` : name);
  };
  return (
    <>
      <Edit name={option} value={name} choices={Object.keys(known)} send={(text) => send(option, text || null)} changed={props.changed} />
      {parameters.length > 0 && (
        <details class="parameters">
          <summary>parameters of {name}</summary>
          {parameters.map(([p, { default: usual, trades }]) => (
            <Edit key={name + p} id={`edit-${option}-${p}`} name={p} value={own(p) ? shown(plan.options[p]) : (given[p] ?? "")} choices={null} hint={shown(usual)} note={trades} send={(text) => change(p, text)} changed={props.changed} />
          ))}
        </details>
      )}
    </>
  );
}

/** A strategy and its parameters, as they are written: `a-greedy(p=0.05, window=500)`. */
export function named(text: string): { name: string; given: Record<string, string> } {
  const found = /^\s*([\w -]*?)\s*(?:\((.*)\))?\s*$/.exec(text);
  const pairs = (found?.[2] ?? "").split(",").map((pair) => pair.split("=").map((part) => part.trim()));
  return { name: (found?.[1] ?? "").toLowerCase().replaceAll("_", "-"), given: Object.fromEntries(pairs.filter((p) => p.length === 2)) as Record<string, string> };
}

function Slack(props: { plan: Plan; node: PlanNode; changed: () => void }) {
  const name = sourceName(props.node);
  const slack = props.plan.inputs[name]?.["slack_text"];
  return (
    <fieldset>
      <legend>stream {name}</legend>
      <Edit name="slack" value={shown(slack ?? 0)} choices={null} hint="such as 2 seconds" send={(value) => ask("PATCH", `/v1/streams/${encodeURIComponent(name)}`, { slack: value })} changed={props.changed} />
    </fieldset>
  );
}

function Edit(props: { id?: string; name: string; value: string; choices: string[] | null; hint?: string; note?: string; send: (value: string) => Promise<unknown>; changed: () => void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const [mistake, setMistake] = useState("");
  const value = draft ?? (props.value === "–" ? "" : props.value);
  const send = async (text: string): Promise<void> => {
    try {
      await props.send(text);
      setDraft(null);
      setMistake("");
      props.changed();
    } catch (e) {
      setMistake((e as Error).message);
    }
  };
  const id = props.id ?? `edit-${props.name}`;
  return (
    <form
      class="edit"
      onSubmit={(e) => {
        e.preventDefault();
        void send(value);
      }}
    >
      <label for={id}>{props.name}</label>
      {props.choices ? (
        <select id={id} value={value} onChange={(e) => void send(e.currentTarget.value)}>
          <option value="">default</option>
          {[...new Set([...props.choices, ...(value ? [value] : [])])].map((c) => (
            <option value={c}>{c}</option>
          ))}
        </select>
      ) : (
        <>
          <input id={id} value={value} placeholder={props.hint ?? ""} onInput={(e) => setDraft(e.currentTarget.value)} />
          <button type="submit">set</button>
        </>
      )}
      {props.note && <p class="small">{props.note}</p>}
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
    </form>
  );
}
