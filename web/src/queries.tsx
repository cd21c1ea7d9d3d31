// Queries: an editor, what runs, live results, and the rows that were put aside.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, follow, queryPath, type Catalog } from "./api";
import { Editor } from "./editor";
import { SureButton } from "./sure";
import { amount, shown } from "./words";

type Row = Record<string, unknown>;
const SHOWN_ROWS = 50; // of the results
const LOOK_EVERY = 2000; // milliseconds, at the rows that were put aside

export const ASIDES = ["late", "invalid", "shed"] as const;

/** How many rows of the inputs were put aside so far; nothing where that is not known. */
export type Aside = Partial<Record<(typeof ASIDES)[number], number>>;

type Tab = "results" | (typeof ASIDES)[number];

export function QueriesView(props: { catalog: Catalog; query: string | null; tab: string | null; choose: (name: string | null) => void; changed: () => void; aside: Aside }) {
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [mistake, setMistake] = useState("");
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
      setMistake("");
      props.changed();
    } catch (e) {
      setMistake((e as Error).message);
    }
  };
  const register = (): Promise<void> =>
    attempt(async () => {
      const made = await ask<{ name: string }>("POST", "/v1/queries", { text, name: name || null });
      setText("");
      setName("");
      props.choose(made.name);
    });
  const drop = (n: string): Promise<void> =>
    attempt(async () => {
      await ask("DELETE", queryPath(n));
      if (props.query === n) props.choose(null);
    });
  const chosen = props.catalog.queries.find((q) => q.name === props.query);
  return (
    <section>
      <h2>A new query</h2>
      <Editor label="text of a new query" text={text} change={setText} catalog={props.catalog} hint={example(props.catalog)} send={() => void (text.trim() && register())} />
      <div class="bar">
        <label>
          name <input id="name" value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </label>
        <button id="register" disabled={!text.trim()} title="Ctrl-Enter in the text" onClick={() => void register()}>
          register
        </button>
        <span class="small">streams: {props.catalog.streams.map((s) => `${s.name} (${s.columns.map((c) => c[0]).join(", ")})`).join("; ") || "none"}</span>
      </div>
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      <h2>What runs</h2>
      <div class="scroll" tabindex={0} role="region" aria-label="queries">
        <table id="queries">
          <thead>
            <tr>
              <th>name</th>
              <th>status</th>
              <th class="number">results</th>
              <th>text</th>
              <th aria-label="actions" />
            </tr>
          </thead>
          <tbody>
            {props.catalog.queries.map((q) => (
              <tr key={q.id} class={props.query === q.name ? "selected" : ""}>
                <td>
                  <button class="link" onClick={() => props.choose(q.name)}>
                    {q.name}
                  </button>
                </td>
                <td class={q.message ? "status" : ""}>
                  {q.status}
                  {q.message && <span class="mistake">: {q.message}</span>}
                </td>
                <td class="number">{amount(q.rows)}</td>
                <td class="mono">{q.text}</td>
                <td>
                  <SureButton text="drop" label={`drop ${q.name}`} act={() => void drop(q.name)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {chosen && <Results key={`${chosen.id} ${props.tab}`} query={chosen.name} tab={props.tab} catalog={props.catalog} aside={props.aside} />}
    </section>
  );
}

/** What is said below an empty editor. */
function example(catalog: Catalog): string {
  const stream = catalog.streams[0];
  if (!stream) return "The server has no stream yet: POST /v1/streams or ed.connect(…).stream(…) declares one for rows that are pushed.";
  return `For example: SELECT Istream(${stream.columns.map((c) => c[0]).slice(0, 2).join(", ")}) FROM ${stream.name} WHERE …`;
}

function Results(props: { query: string; tab: string | null; catalog: Catalog; aside: Aside }) {
  const [tab, setTab] = useState<Tab>(ASIDES.find((t) => t === props.tab) ?? "results");
  const [rows, setRows] = useState<Row[]>([]);
  const [ended, setEnded] = useState("");
  const [mistake, setMistake] = useState("");
  const last = useRef<Row[]>([]);
  useEffect(() => {
    setRows([]);
    last.current = [];
    setEnded("");
    setMistake("");
    if (tab !== "results") {
      let over = false;
      const look = (): void => {
        ask<Row[]>("GET", `${queryPath(props.query)}/aside/${tab}`).then(
          (found) => {
            if (over) return;
            setRows(found.slice(-SHOWN_ROWS));
            setMistake("");
          },
          (e: Error) => over || setMistake(e.message),
        );
      };
      look();
      const timer = setInterval(look, LOOK_EVERY);
      return () => {
        over = true;
        clearInterval(timer);
      };
    }
    const found = props.catalog.queries.find((q) => q.name === props.query);
    const after = Math.max(0, (found?.rows ?? 0) - SHOWN_ROWS, (found?.first ?? 1) - 1);
    const close = follow<{ rows: Row[] }>(
      `${queryPath(props.query)}/follow?after=${after}`,
      "rows",
      (e) => (last.current = [...last.current, ...e.rows].slice(-SHOWN_ROWS)),
      (e) => setEnded(shown((e as { status?: string; reason?: string }).status ?? (e as { reason?: string }).reason)),
    );
    const timer = setInterval(() => setRows(last.current), 200);
    return () => {
      close();
      clearInterval(timer);
    };
  }, [tab, props.query]);
  const columns = Object.keys(rows[rows.length - 1] ?? {});
  return (
    <>
      <h2>
        {props.query} <span class="small">{ended}</span>
      </h2>
      <div class="bar" role="tablist">
        {(["results", ...ASIDES] as const).map((t) => (
          <button role="tab" aria-selected={tab === t} onClick={() => setTab(t)}>
            {t}
            {t !== "results" && props.aside[t] ? ` (${amount(props.aside[t])})` : ""}
          </button>
        ))}
      </div>
      <div class="scroll" tabindex={0} role="region" aria-label="results">
        <table id="results">
          <thead>
            <tr>
              {columns.map((c) => (
                <th class={typeof rows[rows.length - 1]?.[c] === "number" ? "number" : ""}>{c}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {[...rows].reverse().map((r) => (
              <tr>
                {columns.map((c) => (
                  <td class={typeof r[c] === "number" ? "number" : ""}>{shown(r[c])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      {rows.length === 0 && !mistake && <p class="hint">{tab === "results" ? "No rows yet." : `No ${tab} rows.`}</p>}
    </>
  );
}
