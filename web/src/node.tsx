// One operator: its properties with units. What can be changed is edited in place and checked by the server.

import { useState } from "preact/hooks";
import { ask, queryPath, type Plan, type PlanNode } from "./api";
import type { Rate } from "./history";
import { isSource, sourceName } from "./scene";
import { amount, shown } from "./words";

const ORDERS = ["a-greedy", "sweep", "independent", "local-swaps", "static"];

interface Option {
  choices: string[] | null; // null: any text
  hint?: string;
  joins?: boolean; // of plans with a join only
  number?: boolean;
}

const OPTIONS: Record<string, Option> = {
  filters: { choices: ORDERS },
  joins: { choices: ORDERS, joins: true },
  caches: { choices: ["prefix", "global", "none"], joins: true },
  scheduler: { choices: ["fifo", "greedy", "chain", "round-robin"] },
  priority: { choices: null, hint: "such as 3", number: true },
  memory: { choices: null, hint: "such as 64 MB" },
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
  const joins = props.plan.nodes.some((n) => n.kind.includes("join"));
  const plain = (option: Option, text: string): unknown => (text === "" ? null : option.number && !Number.isNaN(Number(text)) ? Number(text) : text);
  return (
    <fieldset>
      <legend>options of the query</legend>
      {Object.entries(OPTIONS)
        .filter(([, option]) => joins || !option.joins)
        .map(([name, option]) => (
          <Edit key={props.plan.query + name} name={name} value={shown(props.plan.options[name] ?? "")} choices={option.choices} hint={option.hint} send={(value) => ask("PATCH", queryPath(props.plan.query), { options: { [name]: plain(option, value) } })} changed={props.changed} />
        ))}
    </fieldset>
  );
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

function Edit(props: { name: string; value: string; choices: string[] | null; hint?: string; send: (value: string) => Promise<unknown>; changed: () => void }) {
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
  const id = `edit-${props.name}`;
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
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
    </form>
  );
}
