// Monitoring graphs that are queries over SysStream (thesis 2.4): the query is shown and can be edited.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, follow, queryPath, type Catalog } from "./api";
import { Chart, type Line } from "./chart";
import { Editor } from "./editor";

interface Row {
  query?: string;
  entity?: string;
  value: number;
  _time: string;
}

const SPAN = 300; // seconds that a graph shows
const GRAPHS: Record<string, { unit: string; text: string }> = {
  "results a second": {
    unit: "rows/s",
    text: "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'query' AND query NOT LIKE 'graph_%'",
  },
  "rows of the inputs": {
    unit: "rows/s",
    text: "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'rate' AND kind = 'input' AND query NOT LIKE 'graph_%'",
  },
  "memory of the queries": {
    unit: "B",
    text: "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'memory' AND kind = 'query' AND query NOT LIKE 'graph_%'",
  },
  "selectivity of conjuncts": {
    unit: "",
    text: "SELECT Istream(query, entity, value) FROM SysStream WHERE property = 'selectivity' AND kind = 'conjunct' AND query NOT LIKE 'graph_%'",
  },
};

export function TimeView(props: { catalog: Catalog; changed: () => void; marks: number[] }) {
  const [choice, setChoice] = useState(Object.keys(GRAPHS)[0]!);
  const [text, setText] = useState(GRAPHS[choice]!.text);
  const [mistake, setMistake] = useState("");
  const graphs = props.catalog.queries.filter((q) => /\bSysStream\b/i.test(q.text) && q.status === "running" && q.columns.some((c) => c[0] === "value"));
  const show = async (): Promise<void> => {
    try {
      await ask("POST", "/v1/queries", { text, name: `graph_${Date.now() % 1000000}` });
      setMistake("");
      props.changed();
    } catch (e) {
      setMistake((e as Error).message);
    }
  };
  const drop = async (name: string): Promise<void> => {
    try {
      await ask("DELETE", queryPath(name));
      props.changed();
    } catch (e) {
      setMistake((e as Error).message);
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
              setText(GRAPHS[e.currentTarget.value]!.text);
            }}
          >
            {Object.keys(GRAPHS).map((g) => (
              <option>{g}</option>
            ))}
          </select>
        </label>
        <button id="add-graph" onClick={() => void show()}>
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
        <article key={q.id} class="graph-card">
          <header class="bar">
            <code>{q.text}</code>
            <button onClick={() => setText(q.text)} aria-label={`edit the query of the graph ${q.name}`}>
              edit
            </button>
            <button onClick={() => void drop(q.name)} aria-label={`remove the graph ${q.name}`}>
              remove
            </button>
          </header>
          <Graph marks={props.marks} query={q.name} rows={q.rows} first={q.first} unit={Object.values(GRAPHS).find((g) => g.text === q.text)?.unit ?? ""} />
        </article>
      ))}
      {graphs.length === 0 && <p class="hint">No graph yet: choose one above, and add it.</p>}
    </section>
  );
}

function Graph(props: { marks: number[]; query: string; rows: number; first: number; unit: string }) {
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
    const timer = setInterval(() => setLines([...found.current].map(([name, points]) => ({ name, points: [...points] }))), 500);
    return () => {
      close();
      clearInterval(timer);
    };
  }, [props.query]);
  return <Chart lines={lines} unit={props.unit} label={`graph of ${props.query}`} clock marks={props.marks} />;
}
