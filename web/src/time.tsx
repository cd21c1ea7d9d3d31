// Monitoring graphs that are queries over SysStream (thesis 2.4): the query is shown and can be edited.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, follow, queryPath, type Catalog, type QuerySummary } from "./api";
import { Chart, type Line } from "./chart";
import { Editor } from "./editor";
import { SureButton } from "./sure";

interface Row {
  query?: string;
  entity?: string;
  value: number;
  _time: string;
}

const SPAN = 300; // seconds that a graph shows
const ADDED = "graph_"; // begins the names of queries that were added here
const UNITS: Record<string, string> = { rate: "rows/s", memory: "B" };
const GRAPHS: Record<string, string> = {
  "results a second":
    "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'query' AND query NOT LIKE 'graph_%'",
  "rows of the inputs":
    "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'input' AND query NOT LIKE 'graph_%'",
  "memory of the queries":
    "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'memory' AND kind = 'query' AND query NOT LIKE 'graph_%'",
  "selectivity of conjuncts":
    "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'selectivity' AND kind = 'conjunct' AND query NOT LIKE 'graph_%'",
};

/** The unit of what a query draws: that of the property, where its values are drawn as they are. */
function unitOf(text: string): string {
  const [, property] = /\bproperty\s*=\s*'(\w+)'/i.exec(text) ?? [];
  return /\bas\s+value\b/i.test(text) ? "" : (UNITS[property ?? ""] ?? "");
}

const add = (text: string): Promise<unknown> => ask("POST", "/v1/queries", { text, name: `${ADDED}${Date.now() % 1000000}` });

export function TimeView(props: { catalog: Catalog; changed: () => void; marks: number[]; span: [number, number] | null; setSpan: (span: [number, number] | null) => void }) {
  const [choice, setChoice] = useState(Object.keys(GRAPHS)[0]!);
  const [text, setText] = useState(GRAPHS[choice]!);
  const [mistake, setMistake] = useState("");
  const graphs = props.catalog.queries.filter((q) => /\bSysStream\b/i.test(q.text) && q.status === "running" && q.columns.some((c) => c[0] === "value"));
  const seen = useRef(new Map<string, [number, number]>());
  /** One axis of time for all graphs, and for the decisions below them. */
  const see = (query: string, span: [number, number] | null): void => {
    if (span) seen.current.set(query, span);
    else seen.current.delete(query);
    const all = [...seen.current.values()];
    props.setSpan(all.length ? [Math.min(...all.map((s) => s[0])), Math.max(...all.map((s) => s[1]))] : null);
  };
  useEffect(() => () => props.setSpan(null), []);
  const attempt = async (work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      setMistake("");
      return true;
    } catch (e) {
      setMistake((e as Error).message);
      return false;
    } finally {
      props.changed();
    }
  };
  return (
    <section>
      <div class="bar">
        <label>
          A graph of{" "}
          <select
            value={choice}
            onChange={(e) => {
              setChoice(e.currentTarget.value);
              setText(GRAPHS[e.currentTarget.value]!);
            }}
          >
            {Object.keys(GRAPHS).map((g) => (
              <option>{g}</option>
            ))}
          </select>
        </label>
        <button id="add-graph" onClick={() => void attempt(() => add(text))}>
          add
        </button>
      </div>
      <Editor label="query of the graph, with a column value" text={text} change={setText} rows={2} catalog={props.catalog} />
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      {graphs.map((q) => (
        <GraphCard key={q.id} query={q} catalog={props.catalog} marks={props.marks} span={props.span} see={see} attempt={attempt} />
      ))}
      {graphs.length === 0 && <p class="hint">No graph yet: choose one above, and add it.</p>}
    </section>
  );
}

/** A graph with its query, which is edited in place. A query that was registered elsewhere stays beside its edited copy. */
function GraphCard(props: { query: QuerySummary; catalog: Catalog; marks: number[]; span: [number, number] | null; see: (query: string, span: [number, number] | null) => void; attempt: (work: () => Promise<unknown>) => Promise<boolean> }) {
  const { query: q, attempt } = props;
  const [draft, setDraft] = useState<string | null>(null);
  const own = q.name.startsWith(ADDED);
  const drop = (): Promise<unknown> => ask("DELETE", queryPath(q.name));
  const save = async (): Promise<void> => {
    if (await attempt(() => add(draft!).then(() => (own ? drop() : undefined)))) setDraft(null);
  };
  return (
    <article class="graph-card">
      <header class="bar">
        {draft === null && <code>{q.text}</code>}
        {draft === null ? (
          <button onClick={() => setDraft(q.text)} aria-label={`edit the query of the graph ${q.name}`}>
            edit
          </button>
        ) : (
          <>
            <button onClick={() => void save()} aria-label={`save the query of the graph ${q.name}`}>
              {own ? "save" : "add as a graph of its own"}
            </button>
            <button onClick={() => setDraft(null)}>cancel</button>
          </>
        )}
        <SureButton text={own ? "remove" : `drop ${q.name}`} label={`remove the graph ${q.name}`} ask={!own} act={() => void attempt(drop)} />
      </header>
      {draft !== null && <Editor label={`query of the graph ${q.name}`} text={draft} change={setDraft} rows={2} catalog={props.catalog} />}
      <Graph marks={props.marks} span={props.span} see={props.see} query={q.name} rows={q.rows} first={q.first} unit={unitOf(q.text)} />
    </article>
  );
}

function Graph(props: { marks: number[]; span: [number, number] | null; see: (query: string, span: [number, number] | null) => void; query: string; rows: number; first: number; unit: string }) {
  const [lines, setLines] = useState<Line[]>([]);
  const found = useRef(new Map<string, [number, number][]>());
  useEffect(() => {
    const after = Math.max(props.first - 1, props.rows - 2000, 0);
    let newest = 0;
    const close = follow<{ rows: Row[] }>(`${queryPath(props.query)}/follow?after=${after}`, "rows", (e) => {
      for (const r of e.rows) {
        const name = r.entity && r.entity !== r.query ? `${r.query ? r.query + ", " : ""}${r.entity}` : (r.query ?? "value");
        const points = found.current.get(name) ?? [];
        points.push([Date.parse(r._time + "Z") / 1000, Number(r.value)]);
        while (points.length > 1 && points[0]![0] < points[points.length - 1]![0] - SPAN) points.shift();
        found.current.set(name, points);
        newest = Math.max(newest, points[points.length - 1]![0]);
      }
      // What has no points any more, such as a query that was dropped, leaves the graph.
      for (const [name, points] of found.current) if (points[points.length - 1]![0] < newest - SPAN) found.current.delete(name);
    });
    const timer = setInterval(() => {
      const shown = [...found.current].map(([name, points]) => ({ name, points: [...points] }));
      setLines(shown);
      if (shown.length) props.see(props.query, [Math.min(...shown.map((l) => l.points[0]![0])), newest]);
    }, 500);
    return () => {
      props.see(props.query, null);
      close();
      clearInterval(timer);
    };
  }, [props.query]);
  return <Chart lines={lines} unit={props.unit} label={`graph of ${props.query}`} clock marks={props.marks} range={props.span} />;
}
